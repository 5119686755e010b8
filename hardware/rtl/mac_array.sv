// The mac array for simulation: the meaning and latency of mac_array.py's registers and trees.
//
// 32-bit sums in the order of the input channels, then a delay line; C++ compilers turn the unrolled
// loops into SIMD. The delay line's variables are read by one block alone, which goes from the last
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
  // A larger array keeps its loop over the columns: its unrolled text takes compilers minutes.
  localparam bit UNROLLED = BATCH * BLOCK_IN * BLOCK_OUT <= 1024;

  logic [BATCH*BLOCK_OUT*32-1:0] line[STAGES];
  logic [STAGES-1:0] valid;

  function automatic int product(
      input logic [BLOCK_IN*INP_BITS-1:0] x, input logic [BLOCK_IN*WGT_BITS-1:0] w
  );
    product = 0;
    for (int channel = 0; channel < BLOCK_IN; channel++)
      product += int'($signed(x[channel*INP_BITS+:INP_BITS]))
          * int'($signed(w[channel*WGT_BITS+:WGT_BITS]));
  endfunction

  task automatic advance();
    if (valid[STAGES-2]) sums <= line[STAGES-2];
    for (int stage = STAGES - 2; stage > 0; stage--)
      if (valid[stage-1]) line[stage] = line[stage-1];
  endtask

  if (UNROLLED) begin : g_unrolled
    always_ff @(posedge clk) begin
      advance();
      if (enable)
        for (int row = 0; row < BATCH; row++)
          for (int column = 0; column < BLOCK_OUT; column++)
            line[0][(row*BLOCK_OUT+column)*32+:32] = product(
                inp[row*BLOCK_IN*INP_BITS+:BLOCK_IN*INP_BITS],
                wgt[column*BLOCK_IN*WGT_BITS+:BLOCK_IN*WGT_BITS]);
      valid = {valid[STAGES-2:0], enable};
    end
  end else begin : g_rolled
    always_ff @(posedge clk) begin
      advance();
      if (enable)
        for (int row = 0; row < BATCH; row++) begin
          /* verilator unroll_disable */
          for (int column = 0; column < BLOCK_OUT; column++)
            line[0][(row*BLOCK_OUT+column)*32+:32] = product(
                inp[row*BLOCK_IN*INP_BITS+:BLOCK_IN*INP_BITS],
                wgt[column*BLOCK_IN*WGT_BITS+:BLOCK_IN*WGT_BITS]);
        end
      valid = {valid[STAGES-2:0], enable};
    end
  end
endmodule
