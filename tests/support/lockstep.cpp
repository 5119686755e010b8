// The harness with a look at every output pin in each cycle of a run, for the comparison of two
// machines: accel_run is replaced by one that writes them down.
#define accel_run accel_run_unseen
#include "@HARNESS@"
#undef accel_run

static uint64_t* pins_seen = nullptr;
static uint64_t cycles_seen = 0, cycles_most = 0;

// A pin of up to 64 bits as it is, a wider one as the FNV-1a hash of its words.
template <class Pin>
static uint64_t seen(const Pin& pin) {
  if constexpr (std::is_integral_v<Pin>) {
    return pin;
  } else {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t word = 0; word < sizeof(Pin) / 4; word++)
      hash = (hash ^ pin[word]) * 0x100000001b3;
    return hash;
  }
}

extern "C" {
// From now on, write a row of one word a pin for each cycle of a run, up to `most` rows.
void lockstep_observe(uint64_t* rows, uint64_t most) {
  pins_seen = rows;
  cycles_most = most;
  cycles_seen = 0;
}
uint64_t lockstep_cycles() { return cycles_seen; }

int accel_run(Accel* accel, uint64_t limit) {
  for (uint64_t i = 0; i < limit; i++) {
    const int outcome = accel_run_unseen(accel, 1);
    if (cycles_seen < cycles_most) {
      const auto& top = accel->top;
      const uint64_t row[] = {@PINS@};
      memcpy(pins_seen + cycles_seen * (sizeof row / 8), row, sizeof row);
    }
    cycles_seen++;
    if (outcome != MORE) return outcome;
  }
  return MORE;
}
}
