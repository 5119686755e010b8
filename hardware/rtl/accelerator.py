"""The whole accelerator: units, memories and the two AXI ports."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import LOADABLE, SEGMENTS, AccelConfig, Memory
from codesign.accel.isa import Unit
from hardware.rtl.accumulators import Accumulators
from hardware.rtl.arm import Arm, Reset
from hardware.rtl.axi_master import AxiMaster, axi_members
from hardware.rtl.command_queue import CommandQueue
from hardware.rtl.counters import STATE_SIGNALS, PerformanceCounters
from hardware.rtl.fetch import Fetch
from hardware.rtl.gemm import Gemm
from hardware.rtl.layouts import queue_bits
from hardware.rtl.load import Load
from hardware.rtl.output import Output
from hardware.rtl.registers import Registers, axi_lite_members
from hardware.rtl.run_control import RunControl
from hardware.rtl.scratchpad import Scratchpad
from hardware.rtl.store import Store
from hardware.rtl.tables import Tables
from hardware.rtl.tokens import Tokens
from hardware.rtl.vector import Vector


def accelerator_members(config: AccelConfig) -> dict[str, Any]:
    """Return the accelerator's pins but for clock and reset."""
    return {
        **axi_members(config, "m_axi_"),
        **axi_lite_members("s_axi_"),
        "interrupt": Out(1),
    }


class Accelerator(wiring.Component):
    """The accelerator in the clock domain `sync`.

    Members
    -------
    m_axi_* : AXI4 master, to DRAM.
    s_axi_* : AXI4-Lite slave, from the host.
    interrupt : Out
        A run is done, and the host has enabled the interrupt.

    Timing
    ------
    docs/microarchitecture.md. All outputs are registers or constants.
    """

    def __init__(self, config: AccelConfig, arm: Arm = Arm.FPGA) -> None:
        self._config, self._arm = config, arm
        super().__init__(accelerator_members(config))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        m.submodules.registers = registers = Registers(config)
        m.submodules.control = control = RunControl(config)
        m.submodules.counters = counters = PerformanceCounters(config)
        clear = ResetInserter(control.clear)
        fetch, load, gemm = Fetch(config), Load(config), Gemm(config, self._arm)
        vector, store, bus = Vector(config, self._arm), Store(config), AxiMaster(config)
        units = {Unit.LOAD: load, Unit.GEMM: gemm, Unit.VECTOR: vector, Unit.STORE: store}
        m.submodules.fetch, m.submodules.bus = clear(fetch), clear(bus)
        for unit, component in units.items():
            m.submodules[unit.name.lower()] = clear(component)
        queues = self._queues(m, clear, fetch, units)
        self._tokens(m, clear, units)
        self._memories(m, load, gemm, vector, store)
        self._bus(m, bus, fetch, load, store)
        self._host(m, registers, control, counters)
        self._run(m, registers, control, bus, fetch, units, queues)
        self._count(m, counters, control, bus, fetch, units)
        return m

    def _queues(
        self,
        m: Module,
        clear: ResetInserter,
        fetch: Fetch,
        units: dict[Unit, wiring.Component],
    ) -> list[CommandQueue]:
        queues = []
        for unit, component in units.items():
            queue = CommandQueue(queue_bits(self._config, unit), self._config.queue_depth)
            m.submodules[f"{unit.name.lower()}_queue"] = clear(queue)
            m.d.comb += [
                queue.push.eq(fetch.queue_push[unit.value]),
                queue.data.eq(fetch.instruction),
                fetch.queue_full[unit.value].eq(queue.full),
                component.head_valid.eq(queue.valid),
                component.head.eq(queue.head),
                queue.pop.eq(component.pop),
            ]
            queues.append(queue)
        return queues

    def _tokens(self, m: Module, clear: ResetInserter, units: dict[Unit, wiring.Component]) -> None:
        tokens = Tokens()
        m.submodules.tokens = clear(tokens)
        for unit, component in units.items():
            m.d.comb += [
                tokens.mask("take", unit).eq(component.take),
                tokens.mask("give", unit).eq(component.give),
                tokens.mask("give_sync", unit).eq(component.give_sync),
                component.there.eq(tokens.mask("there", unit)),
            ]

    def _memories(self, m: Module, load: Load, gemm: Gemm, vector: Vector, store: Store) -> None:
        config = self._config
        readers = {Memory.PARAM: 2}
        pads = {}
        for which in LOADABLE:
            if which is Memory.LUT:
                continue
            pad = Scratchpad(config, which, LOADABLE, self._arm, readers=readers.get(which, 1))
            m.submodules[f"{which.name.lower()}_memory"] = pads[which] = pad
            m.d.comb += [pad.write_en.eq(load.write_en), pad.write.eq(load.write)]
        _read(m, pads[Memory.INP], 0, gemm.read_en, gemm.inp_tile, gemm.inp)
        _read(m, pads[Memory.WGT], 0, gemm.read_en, gemm.wgt_tile, gemm.wgt)
        _read(m, pads[Memory.VEC], 0, vector.vec_read_en, vector.vec_tile, vector.vec)
        param = pads[Memory.PARAM]
        _read(m, param, 0, vector.field_read_en, vector.field_tile, vector.field)
        _read(m, param, 1, vector.param_read_en, vector.param_tile, vector.param)
        if config.has_lut:
            m.submodules.lut_memory = tables = Tables(config, self._arm)
            m.d.comb += [
                tables.write_en.eq(load.write_en),
                tables.write.eq(load.write),
                tables.read_en.eq(vector.table_en),
                tables.base.eq(vector.table_base),
                tables.values.eq(vector.table_values),
                vector.table_entries.eq(tables.entries),
            ]
        self._accumulators(m, gemm, vector)
        m.submodules.out_memory = out = Output(config)
        m.d.comb += [
            out.write_en.eq(vector.out_write_en),
            out.write_tile.eq(vector.write_tile),
            out.write.eq(vector.out_write),
            out.read_en.eq(store.read_en),
            out.read_tile.eq(store.tile),
            store.out.eq(out.read),
        ]

    def _accumulators(self, m: Module, gemm: Gemm, vector: Vector) -> None:
        m.submodules.acc_memory = acc = Accumulators(self._config, self._arm)
        m.d.comb += [
            acc.held_by_vector.eq(vector.held),
            acc.gemm_read_en.eq(gemm.acc_read_en),
            acc.gemm_read_tile.eq(gemm.acc_read_tile),
            gemm.acc_read.eq(acc.gemm_read),
            acc.gemm_write_en.eq(gemm.acc_write_en),
            acc.gemm_write_tile.eq(gemm.acc_write_tile),
            acc.gemm_write.eq(gemm.acc_write),
            acc.vector_read_en.eq(vector.acc_read_en),
            acc.vector_read_tile.eq(vector.acc_tile),
            vector.acc.eq(acc.vector_read),
            acc.vector_write_en.eq(vector.acc_write_en),
            acc.vector_write_tile.eq(vector.write_tile),
            acc.vector_write.eq(vector.acc_write),
            gemm.held_by_vector.eq(vector.held),
            vector.held_by_gemm.eq(gemm.held),
            vector.started_by_gemm.eq(gemm.start_bank),
        ]

    def _bus(self, m: Module, bus: AxiMaster, fetch: Fetch, load: Load, store: Store) -> None:
        for name, member in axi_members(self._config, "").items():
            inner, pin = getattr(bus, f"axi_{name}"), getattr(self, f"m_axi_{name}")
            m.d.comb += pin.eq(inner) if member.flow is Out else inner.eq(pin)
        for name, unit in (("fetch", fetch), ("load", load), ("store", store)):
            m.d.comb += [
                getattr(bus, f"{name}_valid").eq(unit.request_valid),
                getattr(bus, name).eq(unit.request),
                unit.grant.eq(getattr(bus, f"{name}_grant")),
            ]
        m.d.comb += [
            fetch.beat_valid.eq(bus.fetch_beat),
            fetch.beat.eq(self.m_axi_rdata),
            load.beat_valid.eq(bus.load_beat),
            load.beat.eq(self.m_axi_rdata),
            load.beat_last.eq(self.m_axi_rlast),
            bus.w_valid.eq(store.beat_valid),
            bus.w_data.eq(store.beat),
            bus.w_last.eq(store.beat_last),
            store.beat_ready.eq(bus.w_ready),
            store.response.eq(bus.response),
        ]

    def _host(
        self, m: Module, registers: Registers, control: RunControl, counters: PerformanceCounters
    ) -> None:
        for name, member in axi_lite_members("").items():
            inner, pin = getattr(registers, f"axil_{name}"), getattr(self, f"s_axi_{name}")
            m.d.comb += pin.eq(inner) if member.flow is Out else inner.eq(pin)
        m.d.comb += [
            control.start.eq(registers.start),
            control.abort.eq(registers.abort),
            control.watchdog.eq(registers.watchdog),
            registers.running.eq(control.running),
            registers.done.eq(control.done),
            registers.error.eq(control.error),
            registers.error_address.eq(control.error_address),
            registers.waiting.eq(control.waiting),
            registers.counters.eq(counters.values),
        ]
        m.d.sync += self.interrupt.eq(control.done & registers.interrupt_enable)

    def _run(
        self,
        m: Module,
        registers: Registers,
        control: RunControl,
        bus: AxiMaster,
        fetch: Fetch,
        units: dict[Unit, wiring.Component],
        queues: list[CommandQueue],
    ) -> None:
        shift = (self._config.bus_bytes - 1).bit_length()
        load, store = units[Unit.LOAD], units[Unit.STORE]
        memory_units = (load, store)
        moving: list[Value] = [unit.busy for unit in (fetch, *units.values())]
        moving += [self.m_axi_rvalid, self.m_axi_bvalid, self.m_axi_wready & self.m_axi_wvalid]
        m.d.comb += [
            fetch.start.eq(control.begin),
            fetch.base.eq(registers.program >> shift),
            fetch.instructions.eq(registers.instructions),
            fetch.stop.eq(control.stop),
            *(unit.stop.eq(control.stop) for unit in memory_units),
            *(
                unit.segments[index].eq(registers.segments[index] >> shift)
                for unit in memory_units
                for index in range(SEGMENTS)
            ),
            control.quiescent.eq(
                fetch.done
                & ~Cat(queue.valid for queue in queues).any()
                & Cat(unit.idle for unit in units.values()).all()
            ),
            control.drained.eq(bus.quiet & ~load.in_flight & ~store.in_flight),
            control.read_failed.eq(bus.read_failed),
            control.write_failed.eq(bus.write_failed),
            control.burst_address.eq(bus.failed_address << shift),
            control.instruction_address.eq(fetch.position << shift),
            control.unknown_opcode.eq(fetch.unknown),
            control.progress.eq(Cat(*moving).any()),
            *(control.wait_token[u.value].eq(c.wait_token) for u, c in units.items()),
            *(
                control.wait_memory[u.value].eq(c.wait_memory)
                for u, c in ((Unit.LOAD, load), (Unit.STORE, store))
            ),
        ]

    def _count(
        self,
        m: Module,
        counters: PerformanceCounters,
        control: RunControl,
        bus: AxiMaster,
        fetch: Fetch,
        units: dict[Unit, wiring.Component],
    ) -> None:
        gemm = units[Unit.GEMM]
        m.d.comb += [
            counters.clear.eq(control.begin),
            counters.running.eq(control.running),
            counters.read_beat.eq(self.m_axi_rvalid),
            counters.written_beat.eq(self.m_axi_wvalid & self.m_axi_wready),
            counters.product.eq(gemm.issue),
            counters.saturated.eq(gemm.saturated),
            counters.dispatched.eq(fetch.queue_push.any()),
        ]
        counted = {"fetch": fetch, **{unit.name.lower(): c for unit, c in units.items()}}
        for name, component in counted.items():
            for state in STATE_SIGNALS:
                if hasattr(component, state):
                    m.d.comb += getattr(counters, f"{name}_{state}").eq(getattr(component, state))


def top_members(config: AccelConfig, reset: Reset = Reset.LOW) -> dict[str, Any]:
    """Return the pins of the top module."""
    return {"aclk": In(1), reset.value: In(1), **accelerator_members(config)}


class Top(wiring.Component):
    """The accelerator with the clock and reset pins that AXI tools expect.

    Members
    -------
    aclk, aresetn or areset : In
        Clock; synchronous reset, active low or high, obeyed one cycle later.
    """

    def __init__(self, config: AccelConfig, arm: Arm = Arm.FPGA, reset: Reset = Reset.LOW) -> None:
        self._config, self._arm, self._reset = config, arm, reset
        super().__init__(top_members(config, reset))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.domains.pin = pin_domain = ClockDomain(reset_less=True)
        # Registered, so that no input pin reaches every register in the cycle it changes.
        reset_r = Signal(init=1)
        pin = getattr(self, self._reset.value)
        m.d.pin += reset_r.eq(~pin if self._reset is Reset.LOW else pin)
        m.d.comb += [
            domain.clk.eq(self.aclk),
            pin_domain.clk.eq(self.aclk),
            domain.rst.eq(reset_r),
        ]
        m.submodules.accelerator = accelerator = Accelerator(self._config, self._arm)
        for name, member in accelerator_members(self._config).items():
            inner, pin = getattr(accelerator, name), getattr(self, name)
            m.d.comb += pin.eq(inner) if member.flow is Out else inner.eq(pin)
        return m


def _read(
    m: Module, pad: Scratchpad, port: int, enable: Value, tile: Signal, tile_data: Signal
) -> None:
    m.d.comb += [
        getattr(pad, f"read_{port}_en").eq(enable),
        getattr(pad, f"read_{port}_tile").eq(tile),
        tile_data.eq(getattr(pad, f"read_{port}_data")),
    ]
