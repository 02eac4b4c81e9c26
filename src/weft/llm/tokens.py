"""Text to tokens and back: a tokenizer.json, or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from weft.errors import ArgumentError, MissingDependency
from weft.installation import pip_install

FILE = "tokenizer.json"
BYTES = 256


class Tokenizer(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int]) -> str: ...


class ByteTokenizer:
    """The bytes of UTF-8 are tokens; tokens beyond them have no text."""

    def encode(self, text: str) -> list[int]:
        """The bytes of a text."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of bytes; those that are no UTF-8 become replacement characters."""
        return bytes(t for t in tokens if t < BYTES).decode(errors="replace")


class FileTokenizer:
    """A tokenizer.json, read by the package `tokenizers`."""

    def __init__(self, path: Path) -> None:
        try:
            import tokenizers
        except ModuleNotFoundError:
            raise MissingDependency(
                "weft.llm: the package 'tokenizers' reads tokenizer.json",
                where=str(path),
                next=f"{pip_install('llm')}, or give token ids",
            ) from None
        try:
            self._made: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises Exception itself
            raise ArgumentError(
                "weft.llm: tokenizer.json cannot be read", where=str(path), got=str(error)
            ) from None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the file adds at its beginning."""
        return list(self._made.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self._made.decode(list(tokens)))


def tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer of a model's folder; bytes if it has none and they are tokens."""
    path = folder / FILE
    if path.exists():
        return FileTokenizer(path)
    if vocabulary < BYTES:
        raise ArgumentError(
            "weft.llm: the model has no tokenizer.json, and too few tokens for bytes",
            where=str(folder),
            got=f"{vocabulary} tokens",
            next="give token ids",
        )
    return ByteTokenizer()


class TextStream:
    """The text of tokens as they come; characters that are not complete yet are held back."""

    def __init__(self, of: Tokenizer) -> None:
        self._of, self._tokens, self._shown = of, list[int](), 0

    def add(self, token: int) -> str:
        """The text that a token adds."""
        self._tokens.append(token)
        text = self._of.decode(self._tokens)
        if text.endswith("\ufffd"):
            return ""
        return self._rest(text)

    def end(self) -> str:
        """The text that was held back."""
        return self._rest(self._of.decode(self._tokens))

    def _rest(self, text: str) -> str:
        new, self._shown = text[self._shown :], len(text)
        return new
