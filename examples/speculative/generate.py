"""Generate tokens by speculative decoding; speculation.py explains it.

    python examples/speculative/generate.py                   a tiny pair with random weights
    python examples/speculative/generate.py --model FOLDER --draft FOLDER --prompt "Once upon"
    python examples/speculative/generate.py --model FOLDER --lookup --prompt "Once upon"

The last one needs no draft: it proposes tokens of the text. On a GPU the time is printed, and that
of plain decoding.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from drafts import Lookup, ModelDraft
from speculation import Draft, Run, speculate

import weft
from weft.llm import Decoder, Generator, Sampling, Texts
from weft.llm.demo import CONFIG, demo
from weft.llm.tokens import ByteTokenizer, Tokenizer, tokenizer

LATER = 0.5
"""The weight of the second layer in the tiny pair: with more, the first one tells little."""


def pair(device: torch.device | str) -> tuple[Decoder, Decoder]:
    """Make a target of two layers with random weights, and a draft that is the first of them."""
    target = demo(device)
    target.blocks[1].out.weight *= LATER
    target.blocks[1].down.weight *= LATER
    draft = Decoder(dataclasses.replace(CONFIG, depth=1), device)
    shared = draft.state_dict().keys()
    draft.load_state_dict({k: x for k, x in target.state_dict().items() if k in shared})
    return target, draft


def timed(run: Callable[[], Run]) -> tuple[Run, float]:
    """The result of a second call, and its seconds on a GPU: the first call compiles."""
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def main(words: Sequence[str] | None = None) -> Run:
    """Generate as the options ask; print the tokens, what was accepted, and times on a GPU."""
    asked = options().parse_args(words)
    sampling = Sampling(asked.temperature, asked.top_k, asked.top_p, asked.seed)
    model, other = models(asked)
    of: Tokenizer = ByteTokenizer()
    if asked.model is not None:
        of = tokenizer(asked.model, model.config.vocabulary)
    prompt = of.encode(asked.prompt)
    if not prompt:
        raise SystemExit("a prompt needs a token")
    capacity = len(prompt) + asked.tokens
    random = torch.Generator(model.device)
    target = Texts(model, capacity=capacity)
    draft: Draft = Lookup(model.config.vocabulary, model.device)
    if other is not None:
        draft = ModelDraft(Texts(other, capacity=capacity), sampling, random)

    def speculative() -> Run:
        random.manual_seed(asked.seed)
        rest = (asked.tokens, asked.ahead, sampling, random, model.config.stop)
        return speculate(target, draft, prompt, *rest)

    on_gpu = model.device.type == "cuda"
    run, seconds = timed(speculative) if on_gpu else (speculative(), 0.0)
    print(*run.tokens)
    if asked.model is not None:
        print(of.decode(run.tokens))
    print(run)
    if on_gpu:
        plain = Generator(model, capacity=capacity)
        alone, slow = timed(lambda: Run(plain.generate([prompt], asked.tokens, sampling)[0]))
        print(f"{len(run.tokens)} tokens in {1e3 * seconds:.1f} ms")
        print(f"{len(alone.tokens)} tokens in {1e3 * slow:.1f} ms without a draft")
    return run


def options() -> argparse.ArgumentParser:
    """The options of the command line."""
    found = argparse.ArgumentParser(description="Speculative decoding.")
    found.add_argument("--model", type=Path, help="folder of the target; default: a tiny pair")
    found.add_argument("--draft", type=Path, help="folder of the draft")
    found.add_argument("--lookup", action="store_true", help="propose tokens of the text itself")
    found.add_argument("--prompt", default="weft")
    found.add_argument("--tokens", type=int, default=24)
    found.add_argument("--ahead", type=int, default=4, help="tokens of a proposal")
    found.add_argument("--temperature", type=float, default=0.0)
    found.add_argument("--top-k", type=int, default=0)
    found.add_argument("--top-p", type=float, default=1.0)
    found.add_argument("--seed", type=int, default=0)
    return found


def models(asked: argparse.Namespace) -> tuple[Decoder, Decoder | None]:
    """The target, and the draft unless tokens are looked up."""
    if asked.model is None:
        target, draft = pair("cuda" if torch.cuda.is_available() else "cpu")
        return target, None if asked.lookup else draft
    if (asked.draft is None) != asked.lookup:
        raise SystemExit("a target needs a draft: --draft FOLDER, or --lookup")
    target = weft.llm.load(asked.model)
    if asked.lookup:
        return target, None
    draft = weft.llm.load(asked.draft)
    if draft.config.vocabulary != target.config.vocabulary:
        raise SystemExit(
            f"the models have {target.config.vocabulary} and {draft.config.vocabulary} tokens, "
            "and must have the same"
        )
    return target, draft


if __name__ == "__main__":
    main()
