"""Beginning and end of a run: completion, errors, watchdog, abort."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.isa import Unit
from codesign.accel.registers import UNIT_NONE, ErrorCode
from hardware.rtl.registers import ERROR_BITS, WAITING_BITS, WORD_BITS


class RunControl(wiring.Component):
    """Runs a program from `start` to its end.

    Members
    -------
    start, abort : In
        From the host; `start` is ignored during a run.
    begin : Out
        The run's first cycle is the next.
    quiescent : In
        The whole program is done.
    drained : In
        No burst is in flight.
    read_failed, write_failed, unknown_opcode : In; burst_address, instruction_address : In
        Errors; addresses, in bytes, of the burst that failed and of the first instruction that is
        not dispatched.
    progress : In; watchdog : In
        Something moves in this cycle; cycles without progress that are an error, or 0.
    wait_token, wait_memory : In
        Masks of waiting units.
    running, stop, clear : Out
        A run is on; ask for no more bursts; reset all units.
    done, error, error_address, waiting : Out
        Result, for the host.

    Timing
    ------
    `running` falls one cycle after the first quiescent one. After an error or `abort`, `stop` holds
    until the bus is drained, then `clear` for one cycle. `done` shows an error at once; where the
    memory never answers, `running` stays, for what is in flight cannot be taken back.
    """

    def __init__(self, config: AccelConfig) -> None:
        address = unsigned(config.address_bits)
        super().__init__(
            {
                "start": In(1),
                "abort": In(1),
                "begin": Out(1),
                "quiescent": In(1),
                "drained": In(1),
                "read_failed": In(1),
                "write_failed": In(1),
                "unknown_opcode": In(1),
                "burst_address": In(address),
                "instruction_address": In(address),
                "progress": In(1),
                "watchdog": In(WORD_BITS),
                "wait_token": In(len(Unit)),
                "wait_memory": In(len(Unit)),
                "running": Out(1),
                "stop": Out(1),
                "clear": Out(1),
                "done": Out(1),
                "error": Out(ERROR_BITS),
                "error_address": Out(address),
                "waiting": Out(WAITING_BITS, init=UNIT_NONE),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        silent_r = Signal(WORD_BITS)
        expired, failed = Signal(), Signal()
        live = self.running & ~self.stop
        m.d.comb += [
            self.begin.eq(self.start & ~self.running),
            expired.eq((self.watchdog != 0) & (silent_r == self.watchdog)),
            failed.eq(
                live & (self.read_failed | self.write_failed | self.unknown_opcode | expired)
            ),
            self.clear.eq(self.stop & self.drained),
        ]
        m.d.sync += silent_r.eq(Mux(self.progress | ~live, 0, silent_r + 1))
        with m.If(self.begin):
            m.d.sync += [
                self.running.eq(1),
                self.done.eq(0),
                self.error.eq(ErrorCode.NONE.value),
                self.error_address.eq(0),
                self.waiting.eq(UNIT_NONE),
            ]
        with m.Elif(self.clear):
            m.d.sync += [self.running.eq(0), self.stop.eq(0)]
        with m.Elif(failed):
            m.d.sync += [self.stop.eq(1), self.done.eq(1)]
            self._record(m)
        with m.Elif(live & self.abort):
            m.d.sync += self.stop.eq(1)
        with m.Elif(live & self.quiescent):
            m.d.sync += [self.running.eq(0), self.done.eq(1)]
        return m

    def _record(self, m: Module) -> None:
        """Keep what went wrong; one thing of several in one cycle."""
        of_burst = self.read_failed | self.write_failed
        m.d.sync += self.error_address.eq(
            Mux(of_burst, self.burst_address, self.instruction_address)
        )
        with m.If(self.read_failed):
            m.d.sync += self.error.eq(ErrorCode.READ.value)
        with m.Elif(self.write_failed):
            m.d.sync += self.error.eq(ErrorCode.WRITE.value)
        with m.Elif(self.unknown_opcode):
            m.d.sync += self.error.eq(ErrorCode.OPCODE.value)
        with m.Else():
            m.d.sync += self.error.eq(ErrorCode.WATCHDOG.value)
            # The last assignment holds: a unit that waits for a token before one for memory.
            for mask in (self.wait_memory, self.wait_token):
                for unit in reversed(Unit):
                    with m.If(mask[unit.value]):
                        m.d.sync += self.waiting.eq(unit.value)
