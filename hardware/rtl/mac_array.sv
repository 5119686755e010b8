// The mac array for simulation: the meaning and latency of mac_array.py's registers and trees.
//
// 32-bit sums in the order of the input channels, then a delay line; C++ compilers turn the unrolled
// loops into SIMD. The delay line's variables are read by this block alone, which goes from the last
// stage to the first, so blocking assignments are registers here.
module accel_mac_array #(
    parameter int BATCH = 1,
    parameter int BLOCK_IN = 1,
    parameter int BLOCK_OUT = 1,
    parameter int INP_BITS = 8,
    parameter int WGT_BITS = 8,
    parameter int STAGES = 2
) (
    input logic clk,
    input logic enable,
    input logic [BATCH*BLOCK_IN*INP_BITS-1:0] inp,
    input logic [BLOCK_OUT*BLOCK_IN*WGT_BITS-1:0] wgt,
    output logic [BATCH*BLOCK_OUT*32-1:0] sums
);
  logic [BATCH*BLOCK_OUT*32-1:0] line[STAGES];
  logic [STAGES-1:0] valid;

  always_ff @(posedge clk) begin
    if (valid[STAGES-2]) sums <= line[STAGES-2];
    for (int stage = STAGES - 2; stage > 0; stage--)
      if (valid[stage-1]) line[stage] = line[stage-1];
    if (enable)
      for (int row = 0; row < BATCH; row++)
        for (int column = 0; column < BLOCK_OUT; column++) begin
          int total;
          total = 0;
          for (int channel = 0; channel < BLOCK_IN; channel++)
            total += int'($signed(inp[(row*BLOCK_IN+channel)*INP_BITS+:INP_BITS]))
                * int'($signed(wgt[(column*BLOCK_IN+channel)*WGT_BITS+:WGT_BITS]));
          line[0][(row*BLOCK_OUT+column)*32+:32] = total;
        end
    valid = {valid[STAGES-2:0], enable};
  end
endmodule
