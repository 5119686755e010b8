// The loop nest for simulation: the meaning and latency of loops.py, computed only where it moves.
//
// The arrays are read by this block alone, so blocking assignments are registers here.
module accel_loop_nest #(
    parameter int LOOPS = 1,
    parameter int OPERANDS = 1,
    parameter int SLICES = 1
) (
    input logic clk,
    input logic start,
    input logic step,
    input logic [LOOPS-1:0] reduce,
    input logic [LOOPS*32-1:0] extents,
    input logic [OPERANDS*32-1:0] bases,
    input logic [OPERANDS*LOOPS*32-1:0] strides,
    output logic [31:0] slice,
    output logic first,
    output logic final_one,
    output logic last,
    output logic [OPERANDS*32-1:0] tiles
);
  localparam int INNERMOST = LOOPS - 1;
  int count[LOOPS], last_count[LOOPS];
  int origin[OPERANDS], pointer[OPERANDS*LOOPS], stride[OPERANDS*LOOPS];
  logic [LOOPS-1:0] reducing, begins, ends;
  int part;

  always_ff @(posedge clk) begin
    if (start) begin
      reducing = reduce;
      part = 0;
      begins = '1;
      for (int level = 0; level < LOOPS; level++) begin
        count[level] = 0;
        last_count[level] = extents[level*32+:32];
        ends[level] = extents[level*32+:32] == 0;
      end
      for (int operand = 0; operand < OPERANDS; operand++) begin
        origin[operand] = bases[operand*32+:32];
        for (int level = 0; level < LOOPS; level++) begin
          pointer[operand*LOOPS+level] = bases[operand*32+:32];
          stride[operand*LOOPS+level] = strides[(operand*LOOPS+level)*32+:32];
        end
      end
    end else if (step) begin
      if (SLICES > 1 && final_one && part != SLICES - 1) begin
        part++;
        for (int operand = 0; operand < OPERANDS; operand++) begin
          int outer;
          outer = origin[operand];
          for (int level = 0; level < LOOPS; level++)
            if (reducing[level]) pointer[operand*LOOPS+level] = outer;
            else outer = pointer[operand*LOOPS+level];
        end
        for (int level = 0; level < LOOPS; level++)
          if (reducing[level]) begin
            count[level] = 0;
            begins[level] = 1;
            ends[level] = last_count[level] == 0;
          end
      end else begin
        if (final_one) part = 0;
        if (!ends[INNERMOST]) begin
          count[INNERMOST]++;
          begins[INNERMOST] = 0;
          ends[INNERMOST] = count[INNERMOST] == last_count[INNERMOST];
          for (int operand = 0; operand < OPERANDS; operand++)
            pointer[operand*LOOPS+INNERMOST] += stride[operand*LOOPS+INNERMOST];
        end else begin
          int moving;
          moving = 0;
          for (int level = 0; level < LOOPS; level++) if (!ends[level]) moving = level;
          count[moving]++;
          begins[moving] = 0;
          ends[moving] = count[moving] == last_count[moving];
          for (int level = 0; level < LOOPS; level++)
            if (level > moving) begin
              count[level] = 0;
              begins[level] = 1;
              ends[level] = last_count[level] == 0;
            end
          for (int operand = 0; operand < OPERANDS; operand++) begin
            int moved;
            moved = pointer[operand*LOOPS+moving] + stride[operand*LOOPS+moving];
            for (int level = 0; level < LOOPS; level++)
              if (level >= moving) pointer[operand*LOOPS+level] = moved;
          end
        end
      end
    end
    if (start || step) begin
      first <= (reducing & ~begins) == '0;
      final_one <= (reducing & ~ends) == '0;
      last <= ends == '1 && part == SLICES - 1;
      slice <= part;
      for (int operand = 0; operand < OPERANDS; operand++)
        tiles[operand*32+:32] <= pointer[operand*LOOPS+INNERMOST];
    end
  end
endmodule
