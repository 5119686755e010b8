"""Texts that are wrong in one place, and modules that are wrong in types, from right ones."""

from __future__ import annotations

from collections.abc import Iterator

from codesign.compiler.frontend.relay_lexer import TokenKind, lex

_SPELLED = {TokenKind.LOCAL: "%{}", TokenKind.GRAPH: "%{}", TokenKind.GLOBAL: "@{}"}
_STRANGE = ("", "%", "@", '"', "\\", "\x00", "é", "#[", "/*", "99999999999999999999", "(", "}")


def token_texts(text: str) -> list[str]:
    """Return the tokens of a text, each as it is written."""
    found = []
    for token in lex(text, "text").tokens[:-1]:
        match token.kind:
            case TokenKind.STRING:
                found.append(f'"{token.text}"')
            case TokenKind.FIELD:
                found.append(f".{token.text}")
            case kind:
                found.append(_SPELLED.get(kind, "{}").format(token.text))
    return found


def malformed(head: str, tokens: list[str]) -> Iterator[str]:
    """Yield the text with each token left out, doubled, swapped, replaced, and cut off there."""
    kinds = sorted(set(tokens))
    for index, token in enumerate(tokens):
        before, after = tokens[:index], tokens[index + 1 :]
        other = kinds[(index * 7 + 3) % len(kinds)]
        yield _joined(head, [*before, *after])
        yield _joined(head, [*before, token, token, *after])
        yield _joined(head, [*before, *after[:1], token, *after[1:]])
        yield _joined(head, [*before, other, *after])
        yield _joined(head, [*before, _STRANGE[index % len(_STRANGE)], *after])
        yield _joined(head, before)


def _joined(head: str, tokens: list[str]) -> str:
    return head + " ".join(tokens)
