// A scratchpad for simulation: the meaning and latency of scratchpad.py, with one write in place of
// one for each granule. Where a tile is read while it is written, which no program with the right
// tokens does and synthesis gives no promise about, the tile comes out with all bits inverted.
module accel_scratchpad #(
    parameter int DEPTH = 2,
    parameter int INDEX_BITS = 1,
    parameter int TILE_BITS = 8,
    parameter int GRANULE_BITS = 8,
    parameter int BEAT_BITS = 1,
    parameter int READERS = 1
) (
    input logic clk,
    input logic write_en,
    input logic [INDEX_BITS-1:0] write_tile,
    input logic [BEAT_BITS-1:0] write_beat,
    input logic [GRANULE_BITS-1:0] write_data,
    input logic padding,
    input logic [TILE_BITS-1:0] pad,
    input logic [READERS-1:0] read_en,
    input logic [READERS*INDEX_BITS-1:0] read_tile,
    output logic [READERS*TILE_BITS-1:0] read_data
);
  logic [TILE_BITS-1:0] tiles[DEPTH];

  always_ff @(posedge clk) begin
    if (read_en != '0)
      for (int port = 0; port < READERS; port++)
        if (read_en[port])
          read_data[port*TILE_BITS+:TILE_BITS] <=
              write_en && write_tile == read_tile[port*INDEX_BITS+:INDEX_BITS]
              ? ~tiles[write_tile] : tiles[read_tile[port*INDEX_BITS+:INDEX_BITS]];
    if (write_en) begin
      if (padding) tiles[write_tile] <= pad;
      else tiles[write_tile][write_beat*GRANULE_BITS+:GRANULE_BITS] <= write_data;
    end
  end
endmodule
