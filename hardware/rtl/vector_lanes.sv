// The vector unit's lanes for simulation: the meaning and latency of vector_lane.py.
//
// Each stage of all lanes is one loop that runs only while the stage holds work. The variables are
// read by this block alone, which goes from the last stage to the first, so blocking assignments are
// registers here. Stage numbers are those of codesign.accel.timing.vector_latency.
module accel_vector_lanes #(
    parameter int LANES = 1,
    parameter int WORDS = 1,
    parameter int ACC_BITS = 32,
    parameter int INP_BITS = 8,
    parameter int RESULT_BITS = 32
) (
    input logic clk,
    input logic [10:0] valid,
    input logic first,
    input logic [2:0] op,
    input logic [1:0] reduce,
    input logic x_source,
    input logic [1:0] y_source,
    input logic requantize,
    input logic residual,
    input logic to_acc,
    input logic signed [15:0] immediate,
    input logic [4:0] residual_shift,
    input logic signed [INP_BITS-1:0] vec_zero_point,
    input logic signed [INP_BITS-1:0] zero_point,
    input logic signed [INP_BITS-1:0] low,
    input logic signed [INP_BITS-1:0] high,
    input logic [LANES*ACC_BITS-1:0] acc,
    input logic [LANES*INP_BITS-1:0] vec,
    input logic [WORDS*16-1:0] field,
    input logic [WORDS*64-1:0] param,
    output logic [LANES*RESULT_BITS-1:0] result
);
  localparam longint MOST = 64'sd2147483647;
  localparam longint LEAST = -64'sd2147483648;
  localparam int ACC_MOST = int'((64'sd1 << (ACC_BITS - 1)) - 64'sd1);
  localparam int ACC_LEAST = -ACC_MOST - 1;

  int x_3[LANES], y_3[LANES], term_4[LANES], total_5[LANES];
  int y_4[LANES], y_5[LANES], y_6[LANES];
  longint factor_6[LANES], multiplier_6[LANES], product_7[LANES], residual_7[LANES];
  longint exact_8[LANES];
  logic [5:0] shift_6[LANES], shift_7[LANES], shift_8[LANES];
  int rounded_9[LANES], rounded_10[LANES];

  function automatic int saturated(input longint value);
    return value > MOST ? int'(MOST) : value < LEAST ? int'(LEAST) : int'(value);
  endfunction

  function automatic int rounded(input longint value, input logic [5:0] shift);
    longint half;
    half = ((64'sd1 <<< shift) >>> 1) - 64'sd1 + ((value >>> shift) & 64'sd1);
    return saturated((shift == 0 ? value : value + half) >>> shift);
  endfunction

  always_ff @(posedge clk) begin
    if (valid[10])
      for (int lane = 0; lane < LANES; lane++) begin
        int value;
        value = rounded_10[lane];
        if (to_acc) begin
          value = value > ACC_MOST ? ACC_MOST : value < ACC_LEAST ? ACC_LEAST : value;
        end else begin
          value = saturated(longint'(value) + longint'(zero_point));
          value = value < int'(low) ? int'(low) : value;
          value = value > int'(high) ? int'(high) : value;
        end
        result[lane*RESULT_BITS+:RESULT_BITS] <= RESULT_BITS'(value);
      end
    if (valid[9]) for (int lane = 0; lane < LANES; lane++) rounded_10[lane] = rounded_9[lane];
    if (valid[8])
      for (int lane = 0; lane < LANES; lane++)
        rounded_9[lane] = rounded(exact_8[lane], shift_8[lane]);
    if (valid[7])
      for (int lane = 0; lane < LANES; lane++) begin
        exact_8[lane] = product_7[lane] + residual_7[lane];
        shift_8[lane] = shift_7[lane];
      end
    if (valid[6])
      for (int lane = 0; lane < LANES; lane++) begin
        product_7[lane] = factor_6[lane] * multiplier_6[lane];
        residual_7[lane] = 64'sd0;
        if (requantize && residual)
          residual_7[lane] = (longint'(y_6[lane]) * longint'(immediate)) <<< residual_shift;
        shift_7[lane] = shift_6[lane];
      end
    if (valid[5])
      for (int lane = 0; lane < LANES; lane++) begin
        factor_6[lane] = longint'(total_5[lane]);
        multiplier_6[lane] = 64'sd1;
        shift_6[lane] = 6'd0;
        if (requantize) begin
          factor_6[lane] += longint'($signed(param[(lane%WORDS)*64+:32]));
          multiplier_6[lane] = longint'($signed(param[(lane%WORDS)*64+32+:24]));
          shift_6[lane] = param[(lane%WORDS)*64+56+:6];
        end
        y_6[lane] = y_5[lane];
      end
    if (valid[4])
      for (int lane = 0; lane < LANES; lane++) begin
        if (first || reduce == 2'd0) total_5[lane] = term_4[lane];
        else if (reduce == 2'd1)
          total_5[lane] = saturated(longint'(total_5[lane]) + longint'(term_4[lane]));
        else if ((total_5[lane] < term_4[lane]) == (reduce == 2'd3))
          total_5[lane] = term_4[lane];
        y_5[lane] = y_4[lane];
      end
    if (valid[3])
      for (int lane = 0; lane < LANES; lane++) begin
        y_4[lane] = y_3[lane];
        case (op)
          3'd1: term_4[lane] = saturated(longint'(x_3[lane]) + longint'(y_3[lane]));
          3'd2: term_4[lane] = saturated(longint'(x_3[lane]) - longint'(y_3[lane]));
          3'd3:
          term_4[lane] = saturated(
              longint'($signed(x_3[lane][INP_BITS:0])) * longint'($signed(y_3[lane][15:0])));
          3'd4: term_4[lane] = x_3[lane] < y_3[lane] ? x_3[lane] : y_3[lane];
          3'd5: term_4[lane] = x_3[lane] < y_3[lane] ? y_3[lane] : x_3[lane];
          default: term_4[lane] = x_3[lane];
        endcase
      end
    if (valid[2])
      for (int lane = 0; lane < LANES; lane++) begin
        int from_acc, from_vec;
        from_acc = int'($signed(acc[lane*ACC_BITS+:ACC_BITS]));
        from_vec = int'($signed(vec[lane*INP_BITS+:INP_BITS])) - int'(vec_zero_point);
        x_3[lane] = x_source ? from_vec : from_acc;
        case (y_source)
          2'd0: y_3[lane] = int'(immediate);
          2'd1: y_3[lane] = int'($signed(field[(lane%WORDS)*16+:16]));
          2'd2: y_3[lane] = from_acc;
          default: y_3[lane] = from_vec;
        endcase
      end
  end
endmodule
