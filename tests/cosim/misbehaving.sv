// A bus master that breaks the rule chosen by the value written to any register: what the harness
// must catch. Mode 1 breaks none: it reads four beats at 0x100 and writes two at 0x200.
module misbehaving(
  input aclk, input aresetn, output reg interrupt,
  output reg m_axi_arvalid, input m_axi_arready, output reg [31:0] m_axi_araddr,
  output [7:0] m_axi_arlen, output [2:0] m_axi_arsize, output reg [1:0] m_axi_arburst,
  input m_axi_rvalid, output reg m_axi_rready, input [63:0] m_axi_rdata, input m_axi_rlast,
  input [1:0] m_axi_rresp,
  output reg m_axi_awvalid, input m_axi_awready, output [31:0] m_axi_awaddr,
  output [7:0] m_axi_awlen, output [2:0] m_axi_awsize, output [1:0] m_axi_awburst,
  output reg m_axi_wvalid, input m_axi_wready, output reg [63:0] m_axi_wdata,
  output [7:0] m_axi_wstrb, output m_axi_wlast,
  input m_axi_bvalid, output m_axi_bready, input [1:0] m_axi_bresp,
  input s_axi_awvalid, output s_axi_awready, input [11:0] s_axi_awaddr, input [2:0] s_axi_awprot,
  input s_axi_wvalid, output s_axi_wready, input [31:0] s_axi_wdata, input [3:0] s_axi_wstrb,
  output reg s_axi_bvalid, input s_axi_bready, output [1:0] s_axi_bresp,
  input s_axi_arvalid, output s_axi_arready, input [11:0] s_axi_araddr, input [2:0] s_axi_arprot,
  output reg s_axi_rvalid, input s_axi_rready, output reg [31:0] s_axi_rdata,
  output [1:0] s_axi_rresp);

  localparam GOOD = 1, CROSSES = 2, UNALIGNED = 3, OUTSIDE = 4, FIXED = 5, LATE_W = 6,
             WRONG_WLAST = 7, CHANGES_W = 8, NOT_READY = 9;

  assign m_axi_arlen = 3, m_axi_arsize = 3;
  assign m_axi_awaddr = 32'h200, m_axi_awlen = 1, m_axi_awsize = 3, m_axi_awburst = 1;
  assign m_axi_wstrb = 8'hff, m_axi_bready = 1;
  assign s_axi_bresp = 0, s_axi_rresp = 0;
  assign s_axi_awready = 1, s_axi_wready = 1, s_axi_arready = 1;

  reg [3:0] mode;
  reg [63:0] sum;
  reg second;
  assign m_axi_wlast = mode == WRONG_WLAST ? 1'b1 : second;

  always @(posedge aclk)
    if (!aresetn) begin
      interrupt <= 0; mode <= 0; sum <= 0; second <= 0;
      m_axi_arvalid <= 0; m_axi_awvalid <= 0; m_axi_wvalid <= 0; m_axi_rready <= 1;
      m_axi_araddr <= 0; m_axi_arburst <= 1; s_axi_bvalid <= 0; s_axi_rvalid <= 0;
    end else begin
      s_axi_bvalid <= s_axi_wvalid;
      s_axi_rvalid <= s_axi_arvalid;
      s_axi_rdata <= sum[31:0];
      m_axi_arvalid <= s_axi_wvalid;
      if (s_axi_wvalid) begin
        mode <= s_axi_wdata[3:0];
        m_axi_arburst <= s_axi_wdata == FIXED ? 2'd0 : 2'd1;
        m_axi_rready <= s_axi_wdata != NOT_READY;
        case (s_axi_wdata)
          CROSSES: m_axi_araddr <= 32'hff0;
          UNALIGNED: m_axi_araddr <= 32'h104;
          OUTSIDE: m_axi_araddr <= 32'hf000;
          default: m_axi_araddr <= 32'h100;
        endcase
      end
      if (m_axi_rvalid) sum <= sum + m_axi_rdata;
      m_axi_awvalid <= m_axi_rvalid && m_axi_rlast;
      if (m_axi_awvalid && mode != LATE_W) begin
        m_axi_wvalid <= 1;
        m_axi_wdata <= sum;
      end
      if (m_axi_wvalid && mode == CHANGES_W) m_axi_wdata <= m_axi_wdata + 1;
      if (m_axi_wvalid && m_axi_wready) begin
        m_axi_wdata <= m_axi_wdata + 1;
        second <= 1;
        if (second) m_axi_wvalid <= 0;
      end
      if (m_axi_bvalid) interrupt <= 1;
    end
endmodule
