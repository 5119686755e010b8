// The Verilated board behind a C interface: its clock, and its serial pins joined to a file.
//
// What is read from the file is sent to the board bit by bit; what the board sends is written to it.
#include "Vaccel.h"
#include "verilated.h"
#ifdef ACCEL_ONE_EVAL
#include "Vaccel___024root.h"
#endif

#include <cerrno>
#include <cstdint>
#include <unistd.h>

namespace {

constexpr int RESET_CYCLES = 8;
constexpr int FRAME_BITS = 10;  // start bit, data, stop bit
constexpr uint64_t POLL_CYCLES = 4096;  // between two looks for bytes from the host
constexpr int BUFFER_BYTES = 4096;

}  // namespace

struct Board {
  VerilatedContext context;
  Vaccel top{&context};
  const uint32_t divisor;
  // Towards the board: bytes from the file, and the frame that is under way.
  uint8_t heard[BUFFER_BYTES];
  int heard_bytes = 0, heard_next = 0;
  uint32_t out_frame = 0, out_bits = 0, out_timer = 0;
  // From the board.
  uint8_t said[BUFFER_BYTES];
  int said_bytes = 0;
  uint32_t in_byte = 0, in_bits = 0, in_timer = 0;
  uint64_t silent_cycles = 0, next_poll = 0, cycle = 0;
  uint64_t moved = 0;  // bytes in both directions
  bool failed = false;

  explicit Board(uint32_t cycles_per_bit) : divisor(cycles_per_bit) {
    top.rx = 1;
    top.rst = 1;
    for (int i = 0; i < RESET_CYCLES; i++) tick();
    top.rst = 0;
  }
  ~Board() { top.final(); }

  void tick() {
    top.aclk = 1;
    top.eval();
    top.aclk = 0;
#ifdef ACCEL_ONE_EVAL
    top.rootp->ACCEL_ONE_EVAL = 0;
#else
    top.eval();
#endif
    cycle++;
  }

  void poll(int file) {
    if (cycle < next_poll) return;
    next_poll = cycle + POLL_CYCLES;
    const ssize_t got = read(file, heard, BUFFER_BYTES);
    if (got < 0 && errno != EAGAIN && errno != EINTR) failed = true;
    heard_bytes = got > 0 ? int(got) : 0;
    heard_next = 0;
    moved += heard_bytes;
  }

  void flush(int file) {
    for (int done = 0; done < said_bytes && !failed;) {
      const ssize_t put = write(file, said + done, said_bytes - done);
      if (put > 0) done += int(put);
      else if (errno == EAGAIN) usleep(100);
      else if (errno != EINTR) failed = true;
    }
    said_bytes = 0;
  }

  void send_bit(int file) {
    if (out_timer > 1) {
      out_timer--;
      return;
    }
    if (out_bits == 0) {
      if (heard_next == heard_bytes) poll(file);
      if (heard_next == heard_bytes) return;
      out_frame = 0x200u | uint32_t(heard[heard_next++]) << 1;
      out_bits = FRAME_BITS;
    }
    top.rx = out_frame & 1;
    out_frame >>= 1;
    out_bits--;
    out_timer = divisor;
  }

  void take_bit(int file) {
    if (in_bits == 0) {
      if (!top.tx) {
        in_bits = FRAME_BITS;
        in_timer = divisor / 2 + 1;
      } else if (said_bytes && ++silent_cycles > 2u * FRAME_BITS * divisor) {
        flush(file);
      }
      return;
    }
    if (--in_timer) return;
    in_timer = divisor;
    in_bits--;
    if (in_bits == 0) {
      said[said_bytes++] = uint8_t(in_byte);
      moved++;
      silent_cycles = 0;
      if (said_bytes == BUFFER_BYTES) flush(file);
    } else if (in_bits <= 8) {
      in_byte = in_byte >> 1 | uint32_t(top.tx) << 7;
    }
  }

  // Returns whether the file could be read and written.
  bool run(int file, uint64_t cycles) {
    for (uint64_t i = 0; i < cycles && !failed; i++) {
      send_bit(file);
      tick();
      take_bit(file);
    }
    return !failed;
  }
};

extern "C" {
const char* board_digest() { return ACCEL_DIGEST; }
Board* board_new(uint32_t divisor) { return new Board(divisor); }
void board_free(Board* board) { delete board; }
// Run some cycles with the serial line joined to an open, non-blocking file; 0 where it fails.
int board_run(Board* board, int file, uint64_t cycles) { return board->run(file, cycles); }
uint64_t board_cycles(const Board* board) { return board->cycle; }
// Bytes in both directions since the start.
uint64_t board_moved(const Board* board) { return board->moved; }
}
