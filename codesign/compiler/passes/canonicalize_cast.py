"""canonicalize-cast: give each reader of a widened tensor a cast of its own.

    %0 = cast(%x, dtype="int32"); (add(%0, %y), multiply(%0, %z))
becomes
    (add(cast(%x, dtype="int32"), %y), multiply(cast(%x, dtype="int32"), %z))

fuse-ops then puts each cast beside its reader, and the narrow tensor is what memory holds. Casts to
narrower types stay shared. eliminate-common-subexpr would undo it: it runs before.

Law: every bit stays; what is computed twice is a cast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs, use_counts


@final
@dataclass(frozen=True, slots=True)
class CanonicalizeCast:
    """Duplicate casts to wider types, one for each call of an operator that reads them."""

    name: ClassVar[str] = "canonicalize-cast"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in which operators share no widened tensor."""
        types = infer_types(module)
        return map_bodies(module, lambda body: _unshared(body, types))


def _unshared(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    uses = use_counts(body)
    left = {node: uses[node] for node in uses if _widens(node, types)}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        if not isinstance(original, Call) or not isinstance(original.callee, OpRef):
            return rebuilt
        assert isinstance(rebuilt, Call), "a call stays one"
        args: list[Expr] = []
        for old, new in zip(original.args, rebuilt.args, strict=True):
            is_shared = left.get(old, 1) > 1
            if is_shared:
                left[old] -= 1
            args.append(copied(old, new) if is_shared else new)
        same = all(a is b for a, b in zip(args, rebuilt.args, strict=True))
        return rebuilt if same else replace(rebuilt, args=tuple(args))

    def copied(old: Expr, new: Expr) -> Expr:
        """Copy a cast, and the casts that it widens further: none of them is shared then."""
        if old not in left or not isinstance(old, Call) or not isinstance(new, Call):
            return new
        return replace(new, args=(copied(old.args[0], new.args[0]),))

    return rewrite_pairs(body, rule)


def _widens(node: Expr, types: Mapping[Expr, Type]) -> bool:
    match node:
        case Call(OpRef("cast"), (data,)):
            source, target = types.get(data), types.get(node)
            if isinstance(source, TensorType) and isinstance(target, TensorType):
                return source.dtype.bits < target.dtype.bits
            return False
        case _:
            return False
