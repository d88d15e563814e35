"""`python -m glpcore`: describe, judge and pack steering vectors from a shell.

Results go to stdout and findings to stderr, one a line; with --json all of it goes to stdout. Only
packing imports numpy.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple, NoReturn, TypeVar

from ._core import File, escape, version
from ._errors import Finding, FormatError, GlpError, fault
from ._open import open as open_file
from ._sidecar import HOOKS, Sidecar, read_sidecar

APPLICABLE, REFUSED, UNREADABLE, USAGE = 0, 1, 2, 64
_INTERNAL, _INTERRUPTED = 70, 130
_VERDICTS = {APPLICABLE: "applicable", REFUSED: "refused", UNREADABLE: "unreadable"}
_NO_LIMIT = (1 << 64) - 1
_MOST_ROWS = 1 << 30
_STDIN = "-"


class UsageError(Exception):
    """The command line contradicts itself, or an input that it names."""


class InputError(Exception):
    """An input cannot be used, which is no verdict on a file."""

    def __init__(self, path: str, error: GlpError | OSError) -> None:
        super().__init__(path)
        self.path = path
        self.error = error
        is_refusal = isinstance(error, GlpError) and not isinstance(error, FormatError)
        self.status = REFUSED if is_refusal else UNREADABLE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; prints all that there is to say."""
    out, err = _Output(sys.stdout), _Output(sys.stderr)
    try:
        status = _run(argv, out, err)
        out.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as stop:  # argparse has printed its help, or the usage error
        status = stop.code if isinstance(stop.code, int) else USAGE
        out.flush()
    except Exception as error:
        # What the user can do nothing about is one line too.
        err.line(f"glpcore: internal error: {escape(f'{type(error).__name__}: {error}')}")
        status = _INTERNAL
    err.flush()
    return status


def _run(argv: Sequence[str] | None, out: _Output, err: _Output) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        err.line(parser.format_help().rstrip())
        return USAGE
    command: Callable[[argparse.Namespace, _Output, _Output], int] = arguments.run
    command_parser: _Parser = arguments.parser
    try:
        return command(arguments, out, err)
    except UsageError as error:
        command_parser.error(str(error))
    except InputError as error:
        if getattr(arguments, "json", False):
            findings = _said_of(error)
            _print_json(
                [_Outcome(_called(file), error.status, findings) for file in arguments.files], out
            )
        elif isinstance(error.error, OSError):
            err.line(f"glpcore {arguments.command}: {_system_text(error.error)}")
        else:
            _print_findings(error.path, error.error.findings, err)
        return error.status
    except OSError as error:
        err.line(f"glpcore {arguments.command}: {_system_text(error)}")
        return REFUSED if isinstance(error, FileExistsError) else UNREADABLE


def _said_of(input: InputError) -> list[Finding]:
    """The findings on an input as findings on every file that it was for."""
    if isinstance(input.error, OSError):
        return [_io(input.error)]
    return [
        finding._replace(message=f"{finding.message} It is about {_shown(input.path)}.")
        for finding in input.error.findings
    ]


# ---- Output --------------------------------------------------------------------------------------


class _Output:
    """A stream that may be closed at any time, by a pager or from the start: that is no error."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        # Names in a file may hold characters that the terminal's encoding lacks.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

    def line(self, text: str) -> None:
        self._attempt(lambda stream: stream.write(text + "\n"))

    def flush(self) -> None:
        self._attempt(lambda stream: stream.flush())

    def _attempt(self, act: Callable[[IO[str]], object]) -> None:
        if self._stream is None:
            return
        try:
            act(self._stream)
        except (OSError, ValueError) as error:
            self._give_up()
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                raise  # a full disk loses results: that is an error

    def _give_up(self) -> None:
        stream, self._stream = self._stream, None
        # The interpreter flushes once more on its way out; let that succeed.
        try:
            number = stream.fileno() if stream is not None else -1
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)
        except (OSError, ValueError):
            pass


def _shown(name: str) -> str:
    """The name of a file made safe for a terminal."""
    return escape(os.fsencode(name))


def _system_text(error: OSError) -> str:
    text = error.strerror or str(error)
    if isinstance(error.filename, (str, bytes, os.PathLike)):
        return f"{_shown(os.fsdecode(error.filename))}: {text}"
    return text


class _Outcome(NamedTuple):
    """What is to be said of one file."""

    name: str
    status: int
    findings: list[Finding]
    text: str = ""
    """Facts for people, the verdict not among them."""
    facts: dict[str, object] | None = None
    """Facts for programs; None for a file that cannot be read."""


def _print_text(outcome: _Outcome, out: _Output, err: _Output) -> None:
    out.line(f"{_VERDICTS[outcome.status]}: {_shown(outcome.name)}")
    if outcome.text:
        out.line(outcome.text)
    # Where both streams are one terminal, a file's findings follow its facts.
    out.flush()
    _print_findings(outcome.name, outcome.findings, err)


def _print_findings(name: str, findings: Sequence[Finding], err: _Output) -> None:
    for finding in findings:
        err.line(f"{_shown(name)}: {finding.severity}: {finding.code}: {finding.message}")


def _print_json(outcomes: Sequence[_Outcome], out: _Output) -> None:
    import json

    said = [
        {
            "file": os.fsencode(outcome.name).decode("utf-8", "backslashreplace"),
            "verdict": _VERDICTS[outcome.status],
            "findings": [
                {key: value for key, value in finding._asdict().items() if value is not None}
                for finding in outcome.findings
            ],
            "info": outcome.facts,
        }
        for outcome in outcomes
    ]
    # ASCII, so that no control character and no lone surrogate gets out, whatever the file holds.
    out.line(json.dumps(said if len(said) > 1 else said[0], indent=2, allow_nan=False))


# ---- Facts for programs --------------------------------------------------------------------------


def _facts(file: File, findings: Sequence[Finding], with_table: bool) -> dict[str, object]:
    info = file.info
    layers = file.layers
    facts: dict[str, object] = {
        "raw": info.raw,
        "file_size": info.file_size,
        "mode": info.mode if info.mode is not None else info.mode_text,
        "mode_declared": info.mode_declared,
        "spec_version": info.spec_version,
        "hook": info.hook if info.hook is not None else info.hook_text,
        "hook_declared": info.hook_text is not None,
        "derived_at": info.derived_at,
        "transferred": info.transferred,
        "structure": info.structure_text if info.structure_text is not None else info.structure,
        "alpha": _finite(info.alpha),
        "rank": info.rank,
        "n_embd": info.n_embd,
        "n_directions": info.n_directions,
        "layers": list(layers),
        "layer_ranges": _ranges(layers),
        "norms": {"min": _finite(info.norm_min), "max": _finite(info.norm_max)},
        "base": {
            "name": info.base_name,
            "organization": info.base_organization,
            "revision": info.base_revision,
            "url": info.base_url,
        },
        "model_hint": info.model_hint,
        "name": info.name,
        "method": info.method,
        "contrast": info.contrast,
        "generator": info.generator,
        "created": info.created,
        "content_sha256": info.content_sha256,
        "hash": _hash_state(file, findings),
        "misapplied_by_adding": info.mode == "project" and not info.raw,
    }
    if with_table:
        facts["table"] = _table(file)
    return facts


def _finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinities."""
    return value if value is not None and abs(value) < float("inf") else None


def _ranges(layers: Sequence[int]) -> str:
    """ "1-4,7" """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _hash_state(file: File, findings: Sequence[Finding]) -> str:
    if file.info.content_sha256 is None:
        return "absent"
    codes = {finding.code for finding in findings}
    if "content-hash" in codes:
        return "mismatch"
    # The hash is over sound directions; of others there is nothing to compare.
    unsound = {"hash-unverified", "direction-type", "direction-shape"}
    return "unverified" if codes & unsound else "verified"


def _table(file: File) -> list[dict[str, object]]:
    """A row for each direction: its norm, its cosine to the layer before, its strength."""
    return [
        {
            "layer": row.layer,
            "j": row.j,
            "norm": _finite(row.norm),
            "cosine_to_previous": _finite(row.cosine),
            "alpha": _finite(row.alpha),
        }
        for row in file.table()
    ]


# ---- info and check ------------------------------------------------------------------------------


def _info(arguments: argparse.Namespace, out: _Output, err: _Output) -> int:
    files = list(arguments.files)
    if arguments.sample:
        from ._sample import sample_path

        files.append(sample_path())
    if not files:
        raise UsageError("name a file, or pass --sample")
    _read_once(files)
    arguments.files = files
    n_embd, n_layers, hook = arguments.n_embd, arguments.n_layers, arguments.hook
    if arguments.meta is not None:
        sidecar = _input(read_sidecar, arguments.meta)
        n_embd = _agreed("--n-embd", n_embd, sidecar.n_embd)
        n_layers = _agreed("--n-layers", n_layers, sidecar.n_layers)
        hook = _agreed("--hook", hook, sidecar.hook)

    def judge(file: File) -> list[Finding]:
        # A headerless file states nothing; any other is judged by what it says of itself.
        return file.judge(hook=hook) if file.info.raw and hook else file.findings

    def describe(file: File, findings: list[Finding]) -> str:
        # Its first line is the verdict, and the name as the core knows it.
        text = file.describe(layers=arguments.layers, findings=findings)
        return text.partition("\n")[2].rstrip("\n")

    options = {"n_embd": n_embd, "n_layers": n_layers, "max_bytes": _NO_LIMIT}
    return _each(files, options, judge, describe, arguments, out, err)


def _check(arguments: argparse.Namespace, out: _Output, err: _Output) -> int:
    target: dict[str, Any] = {
        "mode": arguments.mode,
        "hook": arguments.hook,
        "n_embd": arguments.n_embd,
        "n_layers": arguments.n_layers,
        "base": arguments.base,
        "base_revision": arguments.base_revision,
        "structure": arguments.structure,
        "allow_hook_mismatch": arguments.allow_hook_mismatch,
        "allow_base_mismatch": arguments.allow_base_mismatch,
        "renormalise": arguments.renormalise,
    }
    n_embd, n_layers = arguments.n_embd, arguments.n_layers
    _read_once(arguments.files)
    if arguments.model is not None:
        from ._model import read_model

        facts = target["model"] = _input(read_model, arguments.model)
        n_embd = n_embd or facts.n_embd
        n_layers = n_layers or facts.n_layers

    def judge(file: File) -> list[Finding]:
        return file.judge(**target)

    # A headerless file must have exactly the shape of the target.
    shape = {"n_embd": n_embd, "n_layers": n_layers}
    return _each(arguments.files, shape, judge, lambda file, findings: "", arguments, out, err)


_T = TypeVar("_T")


def _input(read: Callable[[str], _T], path: str) -> _T:
    try:
        return read(path)
    except (GlpError, OSError) as error:
        raise InputError(path, error) from None
    except MemoryError:
        raise InputError(path, _no_memory()) from None


def _read_once(files: Sequence[str]) -> None:
    if files.count(_STDIN) > 1:
        raise UsageError("name - only once: standard input can be read once")


def _called(file: str) -> str:
    return "<stdin>" if file == _STDIN else file


def _agreed(flag: str, stated: Any, found: Any) -> Any:
    """What the flag or the sidecar states; where both do, they must say the same."""
    if stated is not None and found is not None and stated != found:
        raise UsageError(f"{flag} {stated} contradicts the sidecar, which says {found}")
    return found if stated is None else stated


def _each(
    files: Sequence[str],
    options: dict[str, Any],
    judge: Callable[[File], list[Finding]],
    describe: Callable[[File, list[Finding]], str],
    arguments: argparse.Namespace,
    out: _Output,
    err: _Output,
) -> int:
    """Judges and prints every file; returns the worst status."""
    with_table = getattr(arguments, "layers", False)

    def say(file: File, findings: list[Finding]) -> tuple[str, dict[str, object] | None]:
        if arguments.json:
            return "", _facts(file, findings, with_table)
        return describe(file, findings), None

    worst = APPLICABLE
    outcomes: list[_Outcome] = []
    for i, source in enumerate(files):
        outcome = _judged(source, options, judge, say)
        worst = max(worst, outcome.status)
        if arguments.json:
            outcomes.append(outcome)
            continue
        if outcome.text and i > 0:
            out.line("")
        _print_text(outcome, out, err)
    if arguments.json:
        _print_json(outcomes, out)
    return worst


def _judged(
    source: str,
    options: dict[str, Any],
    judge: Callable[[File], list[Finding]],
    say: Callable[[File, list[Finding]], tuple[str, dict[str, object] | None]],
) -> _Outcome:
    name = _called(source)
    try:
        with _open(source, options) as file:
            findings = _judge_as_stated(judge, file)
            refused = any(finding.severity != "warning" for finding in findings)
            status = REFUSED if refused else APPLICABLE
            return _Outcome(name, status, findings, *say(file, findings))
    except FormatError as error:
        return _Outcome(name, UNREADABLE, error.findings)
    except OSError as error:
        return _Outcome(name, UNREADABLE, getattr(error, "findings", None) or [_io(error)])
    except MemoryError:
        return _Outcome(name, UNREADABLE, _no_memory().findings)


def _judge_as_stated(judge: Callable[[File], list[Finding]], file: File) -> list[Finding]:
    try:
        return judge(file)
    except GlpError:
        raise
    except ValueError as error:  # flags that each make sense, but not together
        raise UsageError(str(error)) from None


def _open(source: str, options: dict[str, Any]) -> File:
    if source != _STDIN:
        return open_file(source, **options)
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise OSError("standard input is closed")
    # It is read into memory, so the usual limit stays.
    return open_file(stream, **{**options, "max_bytes": None})


def _no_memory() -> FormatError:
    message = "Free some memory, or pass a smaller file. There is not enough to read this one."
    return fault(FormatError, "io", message)


def _io(error: OSError) -> Finding:
    return Finding("io", "format", f"Check the path and its permissions. {_system_text(error)}.")


# ---- pack ----------------------------------------------------------------------------------------


def _pack(arguments: argparse.Namespace, out: _Output, err: _Output) -> int:
    from ._pack import pack
    from ._sidecar import read_rows

    meta = arguments.meta
    sidecar = Sidecar(None, None, None, None) if meta is None else _input(read_sidecar, meta)
    hook = _agreed("--hook", arguments.hook, sidecar.hook)
    if hook is None:
        raise UsageError("pass --hook, or --meta with a component: a vector fits one hook point")
    n_embd = _agreed("--n-embd", arguments.n_embd, sidecar.n_embd)
    source: str | bytes = arguments.raw
    if source == _STDIN:
        source = _standard_input()
    elif os.path.exists(arguments.out) and os.path.samefile(arguments.raw, arguments.out):
        raise UsageError("OUT is RAW: name another file to write")
    try:
        rows = read_rows(source, n_embd, sidecar.n_layers)
        chosen = _chosen(arguments.layers, len(rows))
        result = pack(
            arguments.out,
            rows,
            hook=hook,
            base=arguments.base_model,
            layers=chosen,
            alpha=arguments.alpha,
            base_org=arguments.base_org,
            base_revision=arguments.base_revision,
            base_url=arguments.base_url,
            method=arguments.method,
            contrast=sidecar.contrast if arguments.contrast is None else arguments.contrast,
            force=arguments.force,
        )
    except GlpError as error:
        raise InputError(arguments.raw, error) from None
    except MemoryError:
        raise InputError(arguments.raw, _no_memory()) from None
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    n = len(result.layers)
    out.line(f"packed: {_shown(result.path)}")
    out.line(f"  {n} direction{'' if n == 1 else 's'} of n_embd {rows.shape[1]} at {hook}")
    out.line(f"  layers {_ranges(result.layers)}")
    out.line(f"  {result.n_renormalised} of {n} rows were off unit norm and have been normalised")
    if result.row0 == "not-expressible":
        out.line("  row 0 is left out: layer 0 is not expressible, for direction.N starts at 1")
    if result.skipped_zero:
        out.line(f"  all-zero rows are left out: {_ranges(result.skipped_zero)}")
    out.line(f"  content hash {result.content_sha256}")
    out.flush()
    _print_findings(result.path, result.findings, err)
    return APPLICABLE


def _standard_input() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise OSError("standard input is closed")
    data: bytes = stream.read(_MOST_ROWS + 1)
    if len(data) > _MOST_ROWS:
        raise UsageError("standard input is larger than 1 GiB: did you pass the model?")
    return data


def _chosen(spans: list[tuple[int, int]] | None, n_rows: int) -> list[int] | None:
    """The layers of --layers, which must be rows of the input."""
    if spans is None:
        return None
    for first, last in spans:
        if last >= n_rows:
            raise UsageError(
                f"--layers {first}-{last} is outside the input: its last is {n_rows - 1}"
            )
    return [layer for first, last in spans for layer in range(first, last + 1)]


# ---- The command line ----------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    color = False  # newer argparse colours its help

    def __init__(self, **options: Any) -> None:
        raw = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=raw, allow_abbrev=False, **options)
        self.color = False

    def error(self, message: str) -> NoReturn:
        # A message quotes what was typed, which a script may have made of anything.
        text = escape(message)
        _Output(sys.stderr).line(f"{self.format_usage().rstrip()}\n{self.prog}: error: {text}")
        raise SystemExit(USAGE)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _word(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def _finite_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if _finite(value) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _spans(text: str) -> list[tuple[int, int]]:
    """ "1-10,12" as [(1, 10), (12, 12)]."""
    spans = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not like 1-42 or 1-10,12")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise argparse.ArgumentTypeError(f"{part!r} runs backwards")
        if first == 0:
            raise argparse.ArgumentTypeError(
                "layer 0 is not expressible: direction.N applies at layer N, and llama.cpp starts "
                "at direction.1; leave it out"
            )
        spans.append((first, last))
    return spans


_STATUSES = """\
exit status: 0 applicable, 1 refused, 2 unreadable, 64 usage; of several files, the worst"""

_INFO_EXAMPLES = f"""\
examples:
  python -m glpcore info v.gguf
  python -m glpcore info --layers --json v.gguf
  python -m glpcore info raw.f32 --n-embd 4096
  python -m glpcore info raw.f32 --meta raw.json
  curl -s URL | python -m glpcore info -

{_STATUSES}"""

_CHECK_EXAMPLES = f"""\
examples:
  python -m glpcore check v.gguf --hook ffn_out_pre_residual --n-embd 4096 --n-layers 43
  python -m glpcore check v.gguf --model model.gguf --hook residual_stream_post_layer
  python -m glpcore check v.gguf --mode add --model config.json --json

{_STATUSES}"""

_PACK_EXAMPLES = """\
examples:
  python -m glpcore pack raw.f32 v.gguf --meta raw.json --layers 1-42 --base-model NAME
  python -m glpcore pack rows.npy v.gguf --hook residual_stream_post_layer --base-model NAME

exit status: 0 written; 1 refused: the rows make no vector, or OUT exists; 2 an input cannot be
read, or OUT cannot be written; 64 usage: a flag contradicts the sidecar or the rows"""


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m glpcore",
        description="Describe, judge and pack steering vectors: GLP, control vectors, raw .f32.",
        epilog=_STATUSES,
    )
    parser.add_argument("--version", action="version", version=f"glpcore {version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_info(commands)
    _add_check(commands)
    _add_pack(commands)
    return parser


def _add_files(parser: _Parser, nargs: str) -> None:
    parser.add_argument("files", nargs=nargs, metavar="FILE", help="a file; - is standard input")
    parser.add_argument("--json", action="store_true",
                        help="print a JSON object, or an array for several files")  # fmt: skip


def _add_info(commands: Any) -> None:
    parser = commands.add_parser(
        "info",
        help="say what a file is, refused or not",
        description="Describes files by what they say of themselves, and lists every finding.",
        epilog=_INFO_EXAMPLES,
    )
    add = parser.add_argument
    _add_files(parser, "*")
    add("--layers", action="store_true",
        help="add a table: norm, cosine to the previous layer, effective alpha")  # fmt: skip
    add("--n-embd", type=_count, metavar="N", help="width of a raw .f32")
    add("--n-layers", type=_count, metavar="N", help="rows of a raw .f32")
    add("--hook", choices=HOOKS, metavar="H", help=f"site of a raw .f32: {', '.join(HOOKS)}")
    add("--meta", metavar="SIDECAR.json", help="states the shape and the site of a raw .f32")
    add("--sample", action="store_true", help="describe the sample that comes with glpcore")
    parser.set_defaults(run=_info, parser=parser)


def _add_check(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="say whether a file may be applied to a model, at a hook point",
        description="Judges files for a target. What is not stated is not checked.",
        epilog=_CHECK_EXAMPLES,
    )
    add = parser.add_argument
    _add_files(parser, "+")
    add("--mode", choices=("project", "add"), default="project",
        help="the operation, by default project")  # fmt: skip
    add("--hook", choices=HOOKS, metavar="H", help=f"the hook point: {', '.join(HOOKS)}")
    add("--n-embd", type=_count, metavar="N", help="width of the stream that is steered")
    add("--n-layers", type=_count, metavar="N",
        help="layers of the model; its steps with --structure per-execution-step")  # fmt: skip
    add("--base", type=_word, metavar="NAME", help="the model's name")
    add("--base-revision", type=_word, metavar="R", help="the model's commit")
    add("--model", metavar="MODEL", help="a GGUF model or a config.json, for its architecture and "
        "what is not stated of width, layers and names")  # fmt: skip
    add("--structure", choices=("per-layer", "per-execution-step"), metavar="S",
        help="what direction.N counts: per-layer (the default) or per-execution-step")  # fmt: skip
    add("--allow-hook-mismatch", action="store_true",
        help="accept another hook point or none; the file's alpha is then not used")  # fmt: skip
    add("--allow-base-mismatch", action="store_true", help="accept another base or architecture")
    add("--renormalise", action="store_true", help="accept directions that are off unit norm")
    parser.set_defaults(run=_check, parser=parser)


def _add_pack(commands: Any) -> None:
    parser = commands.add_parser(
        "pack",
        help="write a GLP file from a raw .f32 or a .npy",
        description="Writes a projecting GLP file from rows of directions, row = layer. It is read "
        "back and compared\nbefore it appears under its name. Rows off unit norm are normalised.",
        epilog=_PACK_EXAMPLES,
    )
    add = parser.add_argument
    add("raw", metavar="RAW", help="a headerless .f32, or a .npy of shape (n_layers, n_embd); - is "
        "standard input")  # fmt: skip
    add("out", metavar="OUT", help="the .gguf to write")
    add("--meta", metavar="SIDECAR.json", help="states the shape and the site of RAW")
    add("--n-embd", type=_count, metavar="N", help="width of the rows")
    add("--layers", type=_spans, metavar="A-B", help="what to write: 1-42, or 1-10,12; default all")
    add("--hook", choices=HOOKS, metavar="H", help=f"the hook point: {', '.join(HOOKS)}")
    add("--alpha", type=_finite_number, metavar="X", help="the strength at this hook point")
    add("--base-model", metavar="NAME", required=True, help="the checkpoint it was derived from")
    add("--base-org", metavar="ORG", help="its organisation")
    add("--base-revision", metavar="R", help="its commit")
    add("--base-url", metavar="URL", help="its repository")
    add("--method", metavar="TEXT", help="how the directions were derived")
    add("--contrast", metavar="TEXT", help="what was contrasted; by default from the sidecar")
    add("--force", action="store_true", help="replace OUT if it is a file or a link")
    parser.set_defaults(run=_pack, parser=parser)
