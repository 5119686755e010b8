// The lookup tables for simulation: one memory that all lanes read, in place of one port for each.
module accel_tables #(
    parameter int DEPTH = 256,
    parameter int INDEX_BITS = 8,
    parameter int ENTRY_BITS = 8,
    parameter int LANES = 1,
    parameter int VALUE_BITS = 32
) (
    input logic clk,
    input logic write_en,
    input logic [INDEX_BITS-1:0] write_index,
    input logic [ENTRY_BITS-1:0] write_entry,
    input logic read_en,
    input logic [INDEX_BITS-1:0] base,
    input logic [LANES*VALUE_BITS-1:0] values,
    output logic [LANES*ENTRY_BITS-1:0] entries
);
  logic [ENTRY_BITS-1:0] tables[DEPTH];

  always_ff @(posedge clk) begin
    if (read_en)
      for (int lane = 0; lane < LANES; lane++)
        entries[lane*ENTRY_BITS+:ENTRY_BITS] <=
            tables[base|INDEX_BITS'(values[lane*VALUE_BITS+:8])];
    if (write_en) tables[write_index] <= write_entry;
  end
endmodule
