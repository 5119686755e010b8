// The accumulators for simulation: all banks of accumulators.py in one memory with ports for both
// units, which never hold one bank at once.
module accel_accumulators #(
    parameter int DEPTH = 2,
    parameter int INDEX_BITS = 1,
    parameter int TILE_BITS = 32,
    parameter int SLICES = 1
) (
    input logic clk,
    input logic gemm_read_en,
    input logic [INDEX_BITS-1:0] gemm_read_tile,
    output logic [TILE_BITS-1:0] gemm_read,
    input logic gemm_write_en,
    input logic [INDEX_BITS-1:0] gemm_write_tile,
    input logic [TILE_BITS-1:0] gemm_write,
    input logic vector_read_en,
    input logic [INDEX_BITS-1:0] vector_read_tile,
    output logic [TILE_BITS-1:0] vector_read,
    input logic [SLICES-1:0] vector_write_en,
    input logic [INDEX_BITS-1:0] vector_write_tile,
    input logic [TILE_BITS-1:0] vector_write
);
  localparam int SLICE_BITS = TILE_BITS / SLICES;
  logic [TILE_BITS-1:0] tiles[DEPTH];

  always_ff @(posedge clk) begin
    if (gemm_read_en) gemm_read <= tiles[gemm_read_tile];
    if (vector_read_en) vector_read <= tiles[vector_read_tile];
    if (gemm_write_en) tiles[gemm_write_tile] <= gemm_write;
    if (vector_write_en != '0)
      for (int slice = 0; slice < SLICES; slice++)
        if (vector_write_en[slice])
          tiles[vector_write_tile][slice*SLICE_BITS+:SLICE_BITS] <=
              vector_write[slice*SLICE_BITS+:SLICE_BITS];
  end
endmodule
