"""AXI4 master: arbitration of addresses, routing of read data, responses."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import instruction_beats
from codesign.accel.timing import fetch_buffer_beats, fetch_chunk_beats
from hardware.rtl.command_queue import CommandQueue
from hardware.rtl.layouts import beat_address_bits, burst_layout

ID_BITS = 1
INCR = 1
"""AxBURST: incrementing addresses."""
CACHE = 0b0011
"""AxCACHE: normal memory, not cacheable, bufferable."""

Members = dict[str, Any]


def _address_members(prefix: str, config: AccelConfig) -> Members:
    return {
        f"{prefix}id": Out(ID_BITS),
        f"{prefix}addr": Out(config.address_bits),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}lock": Out(1),
        f"{prefix}cache": Out(4),
        f"{prefix}prot": Out(3),
        f"{prefix}qos": Out(4),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


def axi_members(config: AccelConfig, prefix: str) -> Members:
    """Return the pins of an AXI4 master port."""
    return {
        **_address_members(f"{prefix}ar", config),
        f"{prefix}rid": In(ID_BITS),
        f"{prefix}rdata": In(config.bus_bits),
        f"{prefix}rresp": In(2),
        f"{prefix}rlast": In(1),
        f"{prefix}rvalid": In(1),
        f"{prefix}rready": Out(1),
        **_address_members(f"{prefix}aw", config),
        f"{prefix}wdata": Out(config.bus_bits),
        f"{prefix}wstrb": Out(config.bus_bytes),
        f"{prefix}wlast": Out(1),
        f"{prefix}wvalid": Out(1),
        f"{prefix}wready": In(1),
        f"{prefix}bid": In(ID_BITS),
        f"{prefix}bresp": In(2),
        f"{prefix}bvalid": In(1),
        f"{prefix}bready": Out(1),
    }


class AxiMaster(wiring.Component):
    """The bus side of fetch, load and store.

    Members
    -------
    axi_* : pins of an AXI4 master; all outputs are registers or constants.
    fetch_valid, fetch, load_valid, load, store_valid, store : In
        Burst requests.
    fetch_grant, load_grant, store_grant : Out
        The request enters the address register at the end of this cycle.
    fetch_beat, load_beat : Out
        To whom a beat on R belongs.
    w_valid, w_data, w_last : In; w_ready : Out
        Registered write data of store.
    response : Out
        A response on B.
    read_failed, write_failed, failed_address : Out
        An error response, and the burst's address in beats.
    quiet : Out
        No address waits and no read burst is in flight.

    Timing
    ------
    Fetch goes before load. A grant in t puts the address on AR or AW in t + 1.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        members: Members = axi_members(config, "axi_")
        for unit in ("fetch", "load", "store"):
            members[f"{unit}_valid"] = In(1)
            members[unit] = In(burst_layout(config))
            members[f"{unit}_grant"] = Out(1)
        members |= {
            "fetch_beat": Out(1),
            "load_beat": Out(1),
            "w_valid": In(1),
            "w_data": In(config.bus_bits),
            "w_last": In(1),
            "w_ready": Out(1),
            "response": Out(1),
            "read_failed": Out(1),
            "write_failed": Out(1),
            "failed_address": Out(beat_address_bits(config)),
            "quiet": Out(1),
        }
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        read_free = ~self.axi_arvalid | self.axi_arready
        write_free = ~self.axi_awvalid | self.axi_awready
        m.d.comb += [
            self.fetch_grant.eq(self.fetch_valid & read_free),
            self.load_grant.eq(self.load_valid & ~self.fetch_valid & read_free),
            self.store_grant.eq(self.store_valid & write_free),
            self.axi_rready.eq(1),
            self.axi_bready.eq(1),
            self.axi_wvalid.eq(self.w_valid),
            self.axi_wdata.eq(self.w_data),
            self.axi_wlast.eq(self.w_last),
            self.axi_wstrb.eq(Const(-1, self._config.bus_bytes)),
            self.w_ready.eq(self.axi_wready),
            self.response.eq(self.axi_bvalid),
        ]
        read = data.View(
            burst_layout(self._config),
            Mux(self.fetch_valid, self.fetch.as_value(), self.load.as_value()),
        )
        self._address(m, "ar", self.fetch_grant | self.load_grant, read, read_free)
        self._address(m, "aw", self.store_grant, self.store, write_free)
        self._routes(m, read)
        return m

    def _address(
        self, m: Module, channel: str, grant: Value, burst: data.View, free: Value
    ) -> None:
        config = self._config

        def pin(name: str) -> Signal:
            return getattr(self, f"axi_{channel}{name}")

        shift = (config.bus_bytes - 1).bit_length()
        beat_r = Signal(beat_address_bits(config), name=f"{channel}_beat_r")
        with m.If(free):
            m.d.sync += pin("valid").eq(grant)
        with m.If(grant):
            m.d.sync += [beat_r.eq(burst.address), pin("len").eq(burst.last)]
        m.d.comb += [
            pin("addr").eq(beat_r << shift),
            pin("size").eq(shift),
            pin("burst").eq(INCR),
            pin("cache").eq(CACHE),
        ]

    def _routes(self, m: Module, read: data.View) -> None:
        """Remember, in order, whose each burst is and where it began."""
        config = self._config
        beats = instruction_beats(config)
        fetches = fetch_buffer_beats(beats) // fetch_chunk_beats(config, beats) + 1
        depth = 1 << (fetches + config.outstanding - 1).bit_length()
        address_bits = beat_address_bits(config)
        m.submodules.reads = reads = CommandQueue(address_bits + 1, depth)
        m.submodules.writes = writes = CommandQueue(address_bits, max(2, config.outstanding))
        for_load = reads.head[address_bits]
        m.d.comb += [
            reads.push.eq(self.fetch_grant | self.load_grant),
            reads.data.eq(Cat(read.address, self.load_grant)),
            reads.pop.eq(self.axi_rvalid & self.axi_rlast),
            writes.push.eq(self.store_grant),
            writes.data.eq(self.store.address),
            writes.pop.eq(self.axi_bvalid),
            self.fetch_beat.eq(self.axi_rvalid & ~for_load),
            self.load_beat.eq(self.axi_rvalid & for_load),
            self.read_failed.eq(self.axi_rvalid & self.axi_rresp[1]),
            self.write_failed.eq(self.axi_bvalid & self.axi_bresp[1]),
            self.failed_address.eq(Mux(self.read_failed, reads.head[:address_bits], writes.head)),
            self.quiet.eq(~reads.valid & ~self.axi_arvalid & ~self.axi_awvalid),
        ]
