"""Programs of the whole language whose gradient exists, each with arguments; main gives a number.

They use closures, recursion, data types, matches, cells and functions of the prelude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.values import DataValue, Result
from codesign.ir.relay.module import Module

HEADER = '#[version = "0.0.5"]\n'


def module_of(text: str, imports: Module | None = None) -> Module:
    """Return the module of a text that may use the prelude, or what else is given."""
    return parse_module(HEADER + text, imports=prelude() if imports is None else imports)


def number(value: float) -> Result:
    return np.asarray(value, np.float64)


def integer(value: int) -> Result:
    return np.asarray(value, np.int32)


def tensor(*shape: int, seed: int = 3) -> Result:
    return np.random.default_rng(seed).standard_normal(shape)


def list_of(*values: Result) -> Result:
    result = DataValue("Nil")
    for each in reversed(values):
        result = DataValue("Cons", (each, result))
    return result


def rose(value: Result, *children: Result) -> Result:
    return DataValue("Rose", (value, list_of(*children)))


@dataclass(frozen=True)
class Program:
    """A text whose main gives one float64, and arguments of it."""

    text: str
    args: Callable[[], tuple[Result, ...]]


PROGRAMS: Mapping[str, Program] = {
    "branch": Program(
        """
        def @main(%x: float64, %y: float64) -> float64 {
          if (%x > %y) { %x * %y * %y } else { exp(%x) + %y }
        }
        """,
        lambda: (number(1.5), number(0.5)),
    ),
    "other branch": Program(
        """
        def @main(%x: float64, %y: float64) -> float64 {
          if (%x > %y) { %x * %y * %y } else { exp(%x) + %y }
        }
        """,
        lambda: (number(0.5), number(1.5)),
    ),
    "local loop": Program(
        """
        def @main(%x: float64, %n: int32) -> float64 {
          let %loop = fn (%a: float64, %k: int32) -> float64 {
            if (%k == 0) { %a } else { %loop(%a * tanh(%x) + %x, %k - 1) }
          };
          %loop(%x, %n)
        }
        """,
        lambda: (number(0.7), integer(6)),
    ),
    "mutual recursion": Program(
        """
        def @even(%x: float64, %n: int32) -> float64 {
          if (%n == 0) { %x } else { @odd(%x * %x, %n - 1) }
        }
        def @odd(%x: float64, %n: int32) -> float64 {
          if (%n == 0) { 1f64 } else { @even(tanh(%x), %n - 1) * %x }
        }
        def @main(%x: float64, %n: int32) -> float64 { @even(%x, %n) }
        """,
        lambda: (number(0.8), integer(4)),
    ),
    "map and fold": Program(
        """
        def @main(%xs: List[float64], %w: float64) -> float64 {
          let %squares = @map(fn (%x: float64) -> float64 { %x * %x * %w }, %xs);
          @foldl(fn (%a: float64, %x: float64) -> float64 { tanh(%a + %x) * %w }, %w, %squares)
        }
        """,
        lambda: (list_of(number(0.3), number(-0.4), number(0.9)), number(0.6)),
    ),
    "filter, zip, reverse": Program(
        """
        def @main(%xs: List[float64], %ys: List[float64]) -> float64 {
          let %kept = @filter(fn (%x: float64) -> bool { %x > 0f64 }, %xs);
          let %pairs = @zip(@rev(%kept), %ys);
          @foldr(fn (%p: (float64, float64), %a: float64) -> float64 { %p.0 * %p.1 + exp(%a) },
                 0f64, %pairs)
        }
        """,
        lambda: (
            list_of(number(0.3), number(-0.4), number(0.9)),
            list_of(number(0.2), number(0.5), number(0.7)),
        ),
    ),
    "a map that carries": Program(
        """
        def @main(%xs: List[float64], %h: float64) -> float64 {
          let %all = @map_accuml(
            fn (%h: float64, %x: float64) -> (float64, float64) {
              let %next = tanh(%h + %x);
              (%next, %next * %x)
            }, %h, %xs);
          @foldl(fn (%a: float64, %x: float64) -> float64 { %a + %x }, %all.0, %all.1)
        }
        """,
        lambda: (list_of(number(0.3), number(-0.4), number(0.9)), number(0.1)),
    ),
    "rose tree": Program(
        """
        def @total(%t: Tree[float64]) -> float64 {
          match (%t) {
            Rose(%v, %cs) => %v * %v + tanh(@foldl(
              fn (%a: float64, %c: Tree[float64]) -> float64 { %a + @total(%c) }, %v, %cs))
          }
        }
        def @main(%t: Tree[float64], %w: float64) -> float64 {
          @total(@tmap(fn (%x: float64) -> float64 { %x * %w }, %t))
        }
        """,
        lambda: (
            rose(number(0.5), rose(number(0.2)), rose(number(-0.3), rose(number(0.9)))),
            number(1.3),
        ),
    ),
    "a data type with numbers": Program(
        """
        type Shape { Circle(float64), Box(float64, float64), Scaled(float64, Shape), Nothing }
        def @area(%s: Shape) -> float64 {
          match (%s) {
            Circle(%r) => 3f64 * %r * %r,
            Box(%a, %b) => %a * %b,
            Scaled(%k, Scaled(%l, %inner)) => %k * %l * @area(%inner),
            Scaled(%k, %inner) => %k * @area(%inner),
            Nothing => 0f64,
          }
        }
        def @main(%s: Shape, %r: float64) -> float64 {
          @area(%s) * @area(Scaled(%r, Circle(%r))) + @area(Nothing)
        }
        """,
        lambda: (
            DataValue(
                "Scaled",
                (
                    number(2.0),
                    DataValue(
                        "Scaled", (number(0.4), DataValue("Box", (number(1.5), number(0.7))))
                    ),
                ),
            ),
            number(0.3),
        ),
    ),
    "closures in data": Program(
        """
        type Layer { Layer(fn (float64) -> float64), Gate(fn (float64) -> bool, float64) }
        def @run(%l: Layer, %x: float64) -> float64 {
          match (%l) {
            Layer(%f) => %f(%x),
            Gate(%open, %k) => if (%open(%x)) { %x * %k } else { %x },
          }
        }
        def @main(%x: float64, %w: float64) -> float64 {
          let %first = Layer(fn (%v: float64) -> float64 { tanh(%v * %w) });
          let %second = Gate(fn (%v: float64) -> bool { %v > 0.2f64 }, %w);
          @foldl(fn (%v: float64, %l: Layer) -> float64 { @run(%l, %v) }, %x,
                 Cons(%first, Cons(%second, Cons(%first, Nil))))
        }
        """,
        lambda: (number(0.9), number(0.7)),
    ),
    "functions from functions": Program(
        """
        def @power(%f: fn (float64) -> float64, %n: int32) -> fn (float64) -> float64 {
          @compose(@iterate(%f, %n), %f)
        }
        def @cube(%x: float64) -> float64 { %x * %x * %x * 0.5f64 }
        def @main(%x: float64, %n: int32) -> float64 {
          let %g = if (%x > 0f64) { @cube } else { @id };
          @power(%g, %n)(%x) + @flip(fn (%a: float64, %b: float64) -> float64 { %a / %b })(%x, 2f64)
        }
        """,
        lambda: (number(1.1), integer(2)),
    ),
    "a cell in a loop": Program(
        """
        def @main(%x: float64, %n: int32) -> float64 {
          let %total = ref(%x);
          let %count = ref(0);
          let %loop = fn (%k: int32) -> () {
            if (%k == 0) { () } else {
              ref_write(%total, ref_read(%total) * %x + exp(%x));
              ref_write(%count, ref_read(%count) + 1);
              %loop(%k - 1)
            }
          };
          %loop(%n);
          ref_read(%total) * cast(ref_read(%count), dtype="float64")
        }
        """,
        lambda: (number(0.8), integer(4)),
    ),
    "a cell of functions": Program(
        """
        def @main(%x: float64, %y: float64) -> float64 {
          let %f = ref(fn (%v: float64) -> float64 { %v * %y });
          let %before = ref_read(%f);
          ref_write(%f, fn (%v: float64) -> float64 { %before(%v) * tanh(%v) });
          let %last = ref_read(%f);
          %last(%last(%x))
        }
        """,
        lambda: (number(0.8), number(1.2)),
    ),
    "tuples": Program(
        """
        def @swap(%p: (float64, (int32, float64))) -> (float64, (int32, float64)) {
          (%p.1.1 * %p.0, (%p.1.0 + 1, %p.0))
        }
        def @main(%p: (float64, (int32, float64))) -> float64 {
          let %q = @swap(@swap(%p));
          %q.0 * %q.1.1 + cast(%q.1.0, dtype="float64")
        }
        """,
        lambda: ((number(0.8), (integer(2), number(1.2))),),
    ),
    "constructors as functions": Program(
        """
        def @value(%o: Option[float64]) -> float64 {
          match (%o) { Some(%x) => %x * %x, None => 1f64 }
        }
        type Box { Box(float64) }
        def @open(%b: Box) -> float64 { match (%b) { Box(%x) => %x } }
        def @main(%xs: List[float64]) -> float64 {
          let %some = @map(Some, %xs);
          let %boxes = @map(Box, %xs);
          @foldl(fn (%a: float64, %o: Option[float64]) -> float64 { %a * @value(%o) }, 1f64, %some)
            + @foldl(fn (%a: float64, %b: Box) -> float64 { %a * @open(%b) }, 1f64, %boxes)
        }
        """,
        lambda: (list_of(number(0.3), number(-0.4), number(0.9)),),
    ),
    "an unfolded list": Program(
        """
        def @main(%x: float64) -> float64 {
          let %powers = @unfoldr(fn (%s: (float64, int32)) -> Option[((float64, int32), float64)] {
            if (%s.1 == 0) { None } else { Some(((%s.0 * %x, %s.1 - 1), %s.0)) }
          }, (%x, 5));
          @foldl(fn (%a: float64, %p: float64) -> float64 { %a + %p }, 0f64, %powers)
        }
        """,
        lambda: (number(0.9),),
    ),
    "a partial match": Program(
        """
        def @main(%xs: List[float64]) -> float64 {
          match? (%xs) { Cons(%a, Cons(%b, _)) => %a / %b }
        }
        """,
        lambda: (list_of(number(0.3), number(-0.4), number(0.9)),),
    ),
    "shared nodes": Program(
        """
        def @main(%x: float64) -> float64 {
          %0 = tanh(%x);
          %1 = multiply(%0, %0);
          let %f = fn (%y: float64) -> float64 { multiply(%1, add(%y, %1)) };
          add(%f(%0), multiply(%1, %1))
        }
        """,
        lambda: (number(0.9),),
    ),
    "unknown lengths": Program(
        """
        def @norm(%x: Tensor[(?,), float64], %w: Tensor[(1,), float64]) -> Tensor[(?,), float64] {
          multiply(tanh(%x), add(%w, %x))
        }
        def @main(%x: Tensor[(3,), float64], %w: Tensor[(1,), float64]) -> float64 {
          let %y: Tensor[(?,), float64] = @norm(@norm(%x, %w), %w);
          let %z: Tensor[(3,), float64] = %y;
          sum(%z)
        }
        """,
        lambda: (tensor(3), tensor(1, seed=4)),
    ),
    "named lengths": Program(
        """
        def @mixed(%x: Tensor[(n, 2), float64], %w: Tensor[(m, 2), float64])
            -> Tensor[(n, m), float64] {
          let %f = fn (%v: Tensor[(n, 2), float64]) { tanh(nn.dense(%v, %w)) };
          multiply(%f(%x), %f(tanh(%x)))
        }
        def @main(%x: Tensor[(3, 2), float64], %w: Tensor[(4, 2), float64]) -> float64 {
          sum(@mixed(%x, %w)) + sum(@mixed(%w, %x))
        }
        """,
        lambda: (tensor(3, 2), tensor(4, 2, seed=4)),
    ),
    "pieces of tensors": Program(
        """
        def @main(%x: Tensor[(4,), float64], %y: Tensor[(2,), float64]) -> float64 {
          let %parts = split(%x, indices_or_sections=2, axis=0);
          let %joined = concatenate((%parts.1, %y, %parts.0), axis=0);
          sum(multiply(%joined, exp(%joined)))
        }
        """,
        lambda: (tensor(4), tensor(2, seed=4)),
    ),
    "recurrent network": Program(
        """
        def @cell(%w: (Tensor[(3, 2), float64], Tensor[(3, 3), float64], Tensor[(3,), float64]),
                  %h: Tensor[(1, 3), float64], %x: Tensor[(1, 2), float64]) {
          tanh(nn.bias_add(add(nn.dense(%x, %w.0), nn.dense(%h, %w.1)), %w.2))
        }
        def @main(%w: (Tensor[(3, 2), float64], Tensor[(3, 3), float64], Tensor[(3,), float64]),
                  %xs: List[Tensor[(1, 2), float64]]) -> float64 {
          let %last = @foldl(
            fn (%h: Tensor[(1, 3), float64], %x: Tensor[(1, 2), float64]) { @cell(%w, %h, %x) },
            zeros(shape=[1, 3], dtype="float64"), %xs);
          sum(multiply(%last, %last))
        }
        """,
        lambda: (
            (tensor(3, 2), tensor(3, 3, seed=4), tensor(3, seed=5)),
            list_of(*(tensor(1, 2, seed=n) for n in range(4))),
        ),
    ),
    "recursive network": Program(
        """
        type Sentence { Word(Tensor[(1, 2), float64]), Pair(Sentence, Sentence) }
        def @encode(%w: Tensor[(2, 4), float64], %s: Sentence) -> Tensor[(1, 2), float64] {
          match (%s) {
            Word(%x) => %x,
            Pair(%a, %b) => {
              let %both = concatenate((@encode(%w, %a), @encode(%w, %b)), axis=1);
              sigmoid(nn.dense(%both, %w))
            },
          }
        }
        def @main(%w: Tensor[(2, 4), float64], %s: Sentence) -> float64 {
          sum(log(@encode(%w, %s)))
        }
        """,
        lambda: (
            tensor(2, 4),
            DataValue(
                "Pair",
                (
                    DataValue("Word", (tensor(1, 2),)),
                    DataValue(
                        "Pair",
                        (
                            DataValue("Word", (tensor(1, 2, seed=6),)),
                            DataValue("Word", (tensor(1, 2, seed=7),)),
                        ),
                    ),
                ),
            ),
        ),
    ),
}
"""By name."""
