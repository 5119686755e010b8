"""A module with any control flow to one native library."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from codesign.compiler.backends.llvm.cpu import object_code
from codesign.compiler.backends.llvm.target import CpuTarget, host, target_machine
from codesign.compiler.backends.native.emit import program_text
from codesign.compiler.backends.native.library import Library
from codesign.compiler.backends.native.regions import ConstantPool, RegionCompiler
from codesign.compiler.backends.native.runtime import heap_text, program_head
from codesign.compiler.native.group import group
from codesign.compiler.native.own import own
from codesign.compiler.native.reuse import reuse
from codesign.compiler.native.simplify import simplify
from codesign.compiler.native.translate import translate
from codesign.diagnostics import CodesignError, InternalError, Problem
from codesign.ir.control.program import Program
from codesign.ir.executable.native_program import DataConstructor, DataType, NativeProgram
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import parts
from codesign.ir.relay.types import FuncType, RefType, Type, TypeCall, TypeVar, type_text

_EXPORTED: Final = ("heap_new", "heap_run", "heap_delete")


def compile_native(module: Module, types: Mapping[Expr, Type]) -> NativeProgram:
    """Return native code of a module; `types` are of `infer_types`.

    Raises
    ------
    CodesignError
        `main` takes or gives what cannot leave a program (a function, a cell, a type that is not
        known), or an operator has no native code.
    """
    main = module.main
    signature = types[main]
    assert isinstance(signature, FuncType), "main is a function"
    _check_border(module, signature)
    target = host()
    program = control_of(module, types)
    pool = ConstantPool()
    regions = RegionCompiler(target, pool)
    library = Library(program, regions, pool)
    control = "\n".join(
        [
            _head(target),
            program_head(target, len(program.constructors)),
            program_text(program, library),
            "",
        ]
    )
    kernels = "\n".join(
        [
            _head(target),
            *sorted(regions.declarations | library.unknown.declarations),
            *regions.definitions,
            *library.unknown.definitions,
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{target.vector_bits}" }}',
            "",
        ]
    )
    return NativeProgram(
        heap_code=_heap_code(target),
        control_code=_control_code(control, target),
        kernel_code=object_code(kernels, target),
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
        constants=pool.content(),
        workspace_bytes=regions.workspace_bytes,
        params=signature.params,
        result=signature.result,
        data_types=_data_types(module, program),
        sites=tuple(library.sites),
    )


def control_of(module: Module, types: Mapping[Expr, Type]) -> Program:
    """Return the control program that native code is made from."""
    return reuse(own(group(simplify(translate(module, types)))))


def _data_types(module: Module, program: Program) -> tuple[DataType, ...]:
    tags = {name: tag for tag, name in enumerate(program.constructors)}
    return tuple(
        DataType(
            definition.name,
            definition.type_params,
            tuple(
                DataConstructor(each.name, tags[each.name], each.fields)
                for each in definition.constructors
            ),
        )
        for definition in module.data_types.values()
    )


def _check_border(module: Module, signature: FuncType) -> None:
    mistakes = [
        *_border_mistakes(module, "main's result", signature.result),
        *(
            mistake
            for param, type_ in zip(module.main.params, signature.params, strict=True)
            for mistake in _border_mistakes(module, f"main's parameter %{param.name}", type_)
        ),
    ]
    if signature.type_params:
        mistakes.append(
            Problem(
                what="main has type parameters",
                found=type_text(signature),
                span=module.main.span,
                help="name the types that main shall be compiled for",
            )
        )
    if mistakes:
        raise CodesignError(*mistakes)


def _border_mistakes(module: Module, what: str, type_: Type) -> list[Problem]:
    """Return why a value of a type cannot be passed between Python and a program."""
    seen: set[Type] = set()
    pending = [type_]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        match each:
            case FuncType() | RefType():
                kind = "a function" if isinstance(each, FuncType) else "a cell"
                return [
                    Problem(
                        what=f"{what} holds {kind}",
                        found=f"its type is {type_text(type_)}",
                        span=module.main.span,
                        help="only tensors, tuples and values of data types cross to Python",
                    )
                ]
            case TypeCall(name):
                definition = module.data_types[name]
                pending += [f for c in definition.constructors for f in c.fields]
                pending += each.args
            case TypeVar():
                pass
            case _:
                pending += parts(each)
    return []


def _head(target: CpuTarget) -> str:
    layout = target_machine(target).target_data
    return f'target datalayout = "{layout}"\ntarget triple = "{target.triple}"'


@cache
def _heap_code(target: CpuTarget) -> bytes:
    """Return the object code of the heap, compiled once for a processor."""
    return _control_code("\n".join([_head(target), heap_text(target), ""]), target)


def _control_code(text: str, target: CpuTarget) -> bytes:
    """Return the object code of the program's control; small functions of the heap are inlined."""
    machine = target_machine(target)
    try:
        parsed = llvm.parse_assembly(text)
        parsed.verify()
    except RuntimeError as error:
        raise InternalError(f"the native backend wrote what LLVM refuses: {error}") from None
    passes: Any = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(parsed, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    code: bytes = machine.emit_object(parsed)
    return code
