// A host and a memory around the accelerator, for a simulator with x: every input is x where its
// channel holds nothing, and every output is looked at in each cycle after the reset.
module bench;
  @DECLARATIONS@

  @TOP@ dut (
    @CONNECTIONS@);

  localparam BYTES = @BYTES@, SIZE = @SIZE@, SLOTS = 64;

  reg [7:0] memory [0:SIZE-1];
  integer read_address [0:SLOTS-1], read_beats [0:SLOTS-1];
  integer write_address [0:SLOTS-1], write_beats [0:SLOTS-1];
  integer reads_in = 0, reads_out = 0, writes_in = 0, writes_out = 0;
  integer now = 0, lane, beat = 0, stall = 0;
  reg answer = 0, looking = 0;
  reg [31:0] word;

  initial begin
    aclk = 0;
    forever #5 aclk = ~aclk;
  end

  always @(posedge aclk) begin
    now = now + 1;
    if (looking) begin
      @CHECKS@
    end
    if (now > @LIMIT@) $finish;
  end

  // The memory: bursts in order, one beat in a cycle, with a pause now and then.
  always @(posedge aclk) begin
    m_axi_rvalid <= 0; m_axi_rdata <= 'x; m_axi_rlast <= 'x; m_axi_rresp <= 'x; m_axi_rid <= 'x;
    m_axi_bvalid <= 0; m_axi_bresp <= 'x; m_axi_bid <= 'x;
    if (looking) begin
      stall = (stall * 5 + 3) % 16;
      m_axi_arready <= stall != 6; m_axi_awready <= stall != 9; m_axi_wready <= stall != 12;
      if (m_axi_arvalid && m_axi_arready) begin
        read_address[reads_in % SLOTS] = m_axi_araddr;
        read_beats[reads_in % SLOTS] = m_axi_arlen + 1;
        reads_in = reads_in + 1;
      end
      if (m_axi_awvalid && m_axi_awready) begin
        write_address[writes_in % SLOTS] = m_axi_awaddr;
        write_beats[writes_in % SLOTS] = m_axi_awlen + 1;
        writes_in = writes_in + 1;
      end
      if (reads_in != reads_out && stall != 15) begin
        for (lane = 0; lane < BYTES; lane = lane + 1)
          m_axi_rdata[8*lane +: 8] <= memory[read_address[reads_out % SLOTS] + lane];
        m_axi_rvalid <= 1; m_axi_rresp <= 0; m_axi_rid <= 0;
        m_axi_rlast <= read_beats[reads_out % SLOTS] == 1;
        read_address[reads_out % SLOTS] = read_address[reads_out % SLOTS] + BYTES;
        read_beats[reads_out % SLOTS] = read_beats[reads_out % SLOTS] - 1;
        if (read_beats[reads_out % SLOTS] == 0) reads_out = reads_out + 1;
      end
      if (answer) begin
        m_axi_bvalid <= 1; m_axi_bresp <= 0; m_axi_bid <= 0;
      end
      answer = 0;
      if (m_axi_wvalid && m_axi_wready) begin
        for (lane = 0; lane < BYTES; lane = lane + 1)
          if (m_axi_wstrb[lane])
            memory[write_address[writes_out % SLOTS] + BYTES * beat + lane] = m_axi_wdata[8*lane +: 8];
        beat = beat + 1;
        if (m_axi_wlast) begin
          if (writes_out == writes_in || beat != write_beats[writes_out % SLOTS])
            $display("unknown burst_of_writes in cycle %0d", now);
          beat = 0;
          writes_out = writes_out + 1;
          answer = 1;
        end
      end
    end
  end

  task write(input [11:0] address, input [31:0] value);
    begin
      s_axi_awvalid <= 1; s_axi_awaddr <= address; s_axi_awprot <= 0;
      s_axi_wvalid <= 1; s_axi_wdata <= value; s_axi_wstrb <= 15;
      @(posedge aclk);
      while (s_axi_awvalid || s_axi_wvalid) begin
        if (s_axi_awready) begin s_axi_awvalid <= 0; s_axi_awaddr <= 'x; s_axi_awprot <= 'x; end
        if (s_axi_wready) begin s_axi_wvalid <= 0; s_axi_wdata <= 'x; s_axi_wstrb <= 'x; end
        #1;
        if (s_axi_awvalid || s_axi_wvalid) @(posedge aclk);
      end
      while (!s_axi_bvalid) @(posedge aclk);
      @(posedge aclk);
    end
  endtask

  task read(input [11:0] address);
    begin
      s_axi_arvalid <= 1; s_axi_araddr <= address; s_axi_arprot <= 0;
      @(posedge aclk);
      while (!s_axi_arready) @(posedge aclk);
      s_axi_arvalid <= 0; s_axi_araddr <= 'x; s_axi_arprot <= 'x;
      @(posedge aclk);
      while (!s_axi_rvalid) @(posedge aclk);
      word = s_axi_rdata;
      @(posedge aclk);
    end
  endtask

  initial begin
    $readmemh("memory.hex", memory);
    aresetn = 0;
    m_axi_arready = 0; m_axi_awready = 0; m_axi_wready = 0;
    m_axi_rvalid = 0; m_axi_bvalid = 0;
    s_axi_awvalid = 0; s_axi_wvalid = 0; s_axi_arvalid = 0;
    s_axi_bready = 1; s_axi_rready = 1;
    repeat (8) @(posedge aclk);
    aresetn <= 1;
    repeat (2) @(posedge aclk);
    looking = 1;
    @WRITES@
    while (interrupt !== 1) @(posedge aclk);
    @READS@
    read(@STATUS@); $display("status %0d", word);
    read(@CYCLES@); $display("cycles %0d", word);
    $writememh("after.hex", memory);
    $finish;
  end
endmodule
