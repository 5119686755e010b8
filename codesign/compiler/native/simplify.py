"""Remove what nobody needs, and join blocks that only follow each other."""

from __future__ import annotations

from dataclasses import replace

from codesign.ir.control.program import Block, Function, Jump, Program, Value
from codesign.ir.control.uses import (
    borrowed,
    end_borrowed,
    end_given,
    given,
    is_removable,
    renamed,
    results,
    successors,
)


def simplify(program: Program) -> Program:
    """Return the program without dead instructions and parameters, in fewer blocks."""
    return replace(program, functions=tuple(_joined(_pruned(each)) for each in program.functions))


def blocks_backward(function: Function) -> list[Block]:
    """Return the blocks that can be reached, each after all that may follow it."""
    blocks = {block.label: block for block in function.blocks}
    order: list[Block] = []
    entry = function.blocks[0]
    seen = {entry.label}
    stack = [(entry, iter(successors(entry.end)))]
    while stack:
        block, pending = stack[-1]
        label = next((each for each in pending if each not in seen), None)
        if label is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(label)
            stack.append((blocks[label], iter(successors(blocks[label].end))))
    return order


def _pruned(function: Function) -> Function:
    needed: set[Value] = set()
    kept: dict[int, Block] = {}
    for block in blocks_backward(function):
        end = block.end
        if isinstance(end, Jump):
            target = kept[end.target]
            params = next(each for each in function.blocks if each.label == end.target).params
            pairs = zip(params, end.args, strict=True)
            end = Jump(end.target, tuple(arg for param, arg in pairs if param in needed))
            assert len(end.args) == len(target.params), "a jump hands over what its target takes"
        needed.update(end_given(end))
        needed.update(end_borrowed(end))
        body = []
        for each in reversed(block.body):
            if is_removable(each) and needed.isdisjoint(results(each)):
                continue
            needed.update(given(each))
            needed.update(borrowed(each))
            body.append(each)
        params = tuple(param for param in block.params if param in needed)
        kept[block.label] = Block(block.label, params, tuple(reversed(body)), end)
    blocks = tuple(kept[block.label] for block in function.blocks if block.label in kept)
    return replace(function, blocks=blocks)


def _joined(function: Function) -> Function:
    """Append a block to the one before it where only that one jumps to it."""
    entries: dict[int, int] = {}
    for block in function.blocks:
        for label in successors(block.end):
            entries[label] = entries.get(label, 0) + 1
    blocks = {block.label: block for block in function.blocks}
    names: dict[Value, Value] = {}
    joined: list[Block] = []
    swallowed: set[int] = set()
    for first in function.blocks:
        if first.label in swallowed:
            continue
        body, end = list(first.body), first.end
        while isinstance(end, Jump) and entries[end.target] == 1:
            target = blocks[end.target]
            swallowed.add(target.label)
            for param, arg in zip(target.params, end.args, strict=True):
                _equate(param, arg, names)
            body += target.body
            end = target.end
        joined.append(Block(first.label, first.params, tuple(body), end))
    final = {value: _last(value, names) for value in names}
    return replace(
        function,
        blocks=tuple(
            Block(
                block.label,
                tuple(final.get(param, param) for param in block.params),
                tuple(renamed(each, final) for each in block.body),
                renamed(block.end, final),
            )
            for block in joined
            if block.label not in swallowed
        ),
        params=tuple(final.get(param, param) for param in function.params),
    )


def _equate(param: Value, arg: Value, names: dict[Value, Value]) -> None:
    """Let two values have one name, that of the one whose type is known."""
    param, arg = _last(param, names), _last(arg, names)
    if param is arg:
        return
    if arg.tensor is None and param.tensor is not None:
        names[arg] = param
    else:
        names[param] = arg


def _last(value: Value, names: dict[Value, Value]) -> Value:
    while value in names:
        value = names[value]
    return value
