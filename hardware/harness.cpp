// The Verilated accelerator behind a C interface: AXI4-Lite host port and an AXI4 DRAM model.
//
// The DRAM is the caller's memory, and so is the program, which lies at an address behind it. Its timing is the rule of codesign/accel/memory.py; the numbers
// come from the caller. The accelerator registers all its AXI outputs, so the outputs of a cycle are
// known before the cycle's inputs are set, and one evaluation takes the inputs and the clock edge.
#include "Vaccel.h"
#include "verilated.h"
#ifdef ACCEL_ONE_EVAL
#include "Vaccel___024root.h"
void Vaccel___024root___eval(Vaccel___024root*);
#endif
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>

namespace {

constexpr uint32_t ABI_VERSION = 1;
constexpr uint64_t PAGE_BYTES = 4096;
constexpr uint64_t HOST_LIMIT = 10000;  // cycles until a register access counts as hung
constexpr int RESET_CYCLES = 4;
constexpr uint8_t BURST_INCR = 1;

enum Outcome : int { MORE = 0, INTERRUPT = 1, FAILED = 2 };
enum Kind : uint64_t { READ = 0, WRITE = 1 };

struct Burst {
  Kind kind;
  uint64_t slot;     // cycle of the next beat
  uint64_t address;  // byte address of the next beat
  uint8_t* data;     // where the next beat lies
  uint32_t left;     // beats left
};

using Bus = std::remove_reference_t<decltype(Vaccel::m_axi_rdata)>;
constexpr uint32_t BUS_BYTES = sizeof(Bus);

constexpr uint32_t log2_of(uint32_t value) { return value <= 1 ? 0 : 1 + log2_of(value / 2); }

}  // namespace

extern "C" {
struct AccelTiming {
  uint64_t latency, interval, banks, row_bytes, miss_cycles, read_lead, write_lead;
};
struct AccelMemory {
  uint8_t* dram;  // addresses 0 ... dram_bytes - 1
  uint64_t dram_bytes;
  uint8_t* program;  // read only
  uint64_t program_base, program_bytes;
};
}

struct Accel {
  VerilatedContext context;
  Vaccel top{&context};
  AccelMemory memory;
  AccelTiming timing;
  uint64_t cycle = 0;
  uint64_t channel_free = 0;
  std::unique_ptr<int64_t[]> open_rows;
  std::deque<Burst> bursts;
  bool answer_write = false;  // a write burst ended in the last cycle: B is due
  bool w_waits = false;       // W was valid and not taken in the last cycle
  Bus w_data{};
  bool failed = false;
  char message[256] = "";
  uint64_t* log = nullptr;
  uint64_t log_capacity = 0, logged = 0;
#if VM_TRACE
  std::unique_ptr<VerilatedVcdC> waves;
#endif

  Accel(const AccelMemory& given, const AccelTiming& numbers)
      : memory(given), timing(numbers), open_rows(new int64_t[numbers.banks + 1]) {
#if VM_TRACE
    context.traceEverOn(true);
#endif
    for (uint64_t bank = 0; bank < timing.banks; bank++) open_rows[bank] = -1;
    top.m_axi_arready = 1;
    top.m_axi_awready = 1;
    top.aresetn = 0;
    for (int i = 0; i < RESET_CYCLES; i++) tick();
    top.aresetn = 1;
  }

  ~Accel() {
#if VM_TRACE
    if (waves) waves->close();
#endif
    top.final();
  }

  void fail(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    if (failed) return;  // the first mistake is the cause
    failed = true;
    va_list arguments;
    va_start(arguments, format);
    const int used = snprintf(message, sizeof message, "cycle %" PRIu64 ": ", cycle);
    vsnprintf(message + used, sizeof message - used, format, arguments);
    va_end(arguments);
  }

  void record(Kind kind, uint64_t address, uint32_t beats) {
    if (logged < log_capacity) {
      uint64_t* entry = log + 4 * logged;
      entry[0] = cycle, entry[1] = kind, entry[2] = address, entry[3] = beats;
    }
    logged++;
  }

  uint8_t* place(Kind kind, uint64_t address, uint64_t bytes) const {
    if (address + bytes <= memory.dram_bytes) return memory.dram + address;
    const uint64_t offset = address - memory.program_base;
    const bool inside = address >= memory.program_base && offset + bytes <= memory.program_bytes;
    return kind == READ && inside ? memory.program + offset : nullptr;
  }

  void arrive(Kind kind, uint64_t address, uint32_t beats, uint8_t burst, uint8_t beat_size) {
    const char* name = kind == READ ? "read" : "write";
    record(kind, address, beats);
    const uint64_t bytes = uint64_t(beats) * BUS_BYTES;
    if (burst != BURST_INCR || beat_size != log2_of(BUS_BYTES))
      return fail("%s burst at 0x%" PRIx64 " has burst type %u and beat size code %u", name, address,
                  burst, beat_size);
    if (address % BUS_BYTES) return fail("%s burst at 0x%" PRIx64 " is not aligned", name, address);
    if (address / PAGE_BYTES != (address + bytes - 1) / PAGE_BYTES)
      return fail("%s burst at 0x%" PRIx64 " of %u beats crosses a 4 KiB boundary", name, address,
                  beats);
    uint8_t* data = place(kind, address, bytes);
    if (!data)
      return fail("%s burst at 0x%" PRIx64 " of %" PRIu64 " bytes lies outside DRAM of %" PRIu64
                  " bytes", name, address, bytes, memory.dram_bytes);
    const uint64_t lead = kind == READ ? timing.read_lead : timing.write_lead;
    uint64_t first = cycle + (lead > timing.latency ? lead : timing.latency);
    if (first < channel_free) first = channel_free;
    if (timing.banks) {
      const int64_t row = address / timing.row_bytes;
      int64_t& open = open_rows[row % timing.banks];
      if (open != row) first += timing.miss_cycles;
      open = row;
    }
    channel_free = first + uint64_t(beats) * timing.interval;
    bursts.push_back({kind, first, address, data, beats});
  }

  void check_w_stable() {
    if (w_waits && (!top.m_axi_wvalid || memcmp(&w_data, &top.m_axi_wdata, BUS_BYTES)))
      fail("W changed before it was taken");
    w_waits = top.m_axi_wvalid;
    if (w_waits) memcpy(&w_data, &top.m_axi_wdata, BUS_BYTES);
  }

  void take_w(const Burst& burst) {
    if (!top.m_axi_wvalid)
      return fail("W data for 0x%" PRIx64 " is late: its slot is now", burst.address);
    if (bool(top.m_axi_wlast) != (burst.left == 1))
      return fail("wlast is %d with %u beats left", int(top.m_axi_wlast), burst.left);
    const auto* data = reinterpret_cast<const uint8_t*>(&top.m_axi_wdata);
    const uint64_t strobes = top.m_axi_wstrb;
    for (uint32_t i = 0; i < BUS_BYTES; i++)
      if (strobes >> i & 1) burst.data[i] = data[i];
    w_waits = false;
  }

  // Everything the memory does in the cycle whose outputs are visible: take addresses, move one beat.
  void memory_cycle() {
    if (top.m_axi_arvalid)
      arrive(READ, top.m_axi_araddr, top.m_axi_arlen + 1u, top.m_axi_arburst, top.m_axi_arsize);
    if (top.m_axi_awvalid)
      arrive(WRITE, top.m_axi_awaddr, top.m_axi_awlen + 1u, top.m_axi_awburst, top.m_axi_awsize);
    check_w_stable();
    top.m_axi_bvalid = answer_write;
    if (answer_write && !top.m_axi_bready) fail("bready is 0 with an answer to give");
    answer_write = false;
    top.m_axi_rvalid = 0;
    top.m_axi_wready = 0;
    if (bursts.empty() || bursts.front().slot != cycle || failed) return;
    Burst& burst = bursts.front();
    if (burst.kind == READ) {
      top.m_axi_rvalid = 1;
      top.m_axi_rlast = burst.left == 1;
      memcpy(&top.m_axi_rdata, burst.data, BUS_BYTES);
      if (!top.m_axi_rready) fail("rready is 0 with a beat to give");
    } else {
      top.m_axi_wready = 1;
      take_w(burst);
      answer_write = burst.left == 1;
    }
    burst.address += BUS_BYTES;
    burst.data += BUS_BYTES;
    burst.slot += timing.interval;
    if (--burst.left == 0) bursts.pop_front();
  }

  void tick() {
    if (top.aresetn) memory_cycle();
    top.aclk = 1;
#ifdef ACCEL_ONE_EVAL
    // Verilator's wrapper of this function initializes the model, once, and looks after messages and
    // threads, of which there are none.
    if (cycle)
      Vaccel___024root___eval(top.rootp);
    else
      top.eval();
    top.aclk = 0;
    top.rootp->ACCEL_ONE_EVAL = 0;
#else
    top.eval();
    dump(0);
    top.aclk = 0;
    top.eval();
    dump(1);
#endif
    cycle++;
  }

  void dump([[maybe_unused]] int half) {
#if VM_TRACE
    if (waves) waves->dump(cycle * 10 + half * 5);
#endif
  }

  // Tick until `ready()`; false where that takes too long.
  template <class Ready>
  bool until(Ready ready) {
    for (uint64_t i = 0; i < HOST_LIMIT && !failed; i++) {
      const bool done = ready();
      tick();
      if (done) return true;
    }
    fail("the register port does not answer");
    return false;
  }

  bool write(uint32_t address, uint32_t value) {
    top.s_axi_awaddr = address;
    top.s_axi_awvalid = 1;
    top.s_axi_wdata = value;
    top.s_axi_wstrb = 15;
    top.s_axi_wvalid = 1;
    top.s_axi_bready = 1;
    bool address_taken = false, data_taken = false;
    const bool taken = until([&] {
      if (address_taken) top.s_axi_awvalid = 0;
      if (data_taken) top.s_axi_wvalid = 0;
      address_taken |= top.s_axi_awready;
      data_taken |= top.s_axi_wready;
      return address_taken && data_taken;
    });
    top.s_axi_awvalid = 0;
    top.s_axi_wvalid = 0;
    uint8_t response = 0;
    const bool answered = taken && until([&] {
      response = top.s_axi_bresp;
      return bool(top.s_axi_bvalid);
    });
    top.s_axi_bready = 0;
    if (answered && response) fail("writing register 0x%x is refused with response %u", address, response);
    return answered && !response;
  }

  bool read(uint32_t address, uint32_t* value) {
    top.s_axi_araddr = address;
    top.s_axi_arvalid = 1;
    top.s_axi_rready = 1;
    const bool taken = until([&] { return bool(top.s_axi_arready); });
    top.s_axi_arvalid = 0;
    uint8_t response = 0;
    const bool answered = taken && until([&] {
      *value = top.s_axi_rdata;
      response = top.s_axi_rresp;
      return bool(top.s_axi_rvalid);
    });
    top.s_axi_rready = 0;
    if (answered && response) fail("reading register 0x%x is refused with response %u", address, response);
    return answered && !response;
  }

  // Verilator renames the port `interrupt`, a word of some C++ compilers.
  Outcome run(uint64_t limit) {
    for (uint64_t i = 0; i < limit; i++) {
      if (failed) return FAILED;
      if (top.__SYM__interrupt) return INTERRUPT;
      tick();
    }
    return failed ? FAILED : top.__SYM__interrupt ? INTERRUPT : MORE;
  }
};

extern "C" {
uint32_t accel_abi() { return ABI_VERSION; }
const char* accel_digest() { return ACCEL_DIGEST; }
Accel* accel_new(const AccelMemory* memory, const AccelTiming* timing) {
  return new Accel(*memory, *timing);
}
void accel_free(Accel* accel) { delete accel; }
int accel_write(Accel* accel, uint32_t address, uint32_t value) { return accel->write(address, value); }
int accel_read(Accel* accel, uint32_t address, uint32_t* value) { return accel->read(address, value); }
int accel_run(Accel* accel, uint64_t limit) { return accel->run(limit); }
uint64_t accel_cycle(const Accel* accel) { return accel->cycle; }
const char* accel_error(const Accel* accel) { return accel->message; }
// Record bursts from now on: four words each (cycle, 0 read or 1 write, byte address, beats).
void accel_log(Accel* accel, uint64_t* buffer, uint64_t capacity) {
  accel->log = buffer;
  accel->log_capacity = capacity;
  accel->logged = 0;
}
uint64_t accel_logged(const Accel* accel) { return accel->logged; }
// Write waves to a VCD file from now on; 0 where the library was built without them.
int accel_waves([[maybe_unused]] Accel* accel, [[maybe_unused]] const char* path) {
#if VM_TRACE
  accel->waves = std::make_unique<VerilatedVcdC>();
  accel->top.trace(accel->waves.get(), 99);
  accel->waves->open(path);
  return 1;
#else
  return 0;
#endif
}
}
