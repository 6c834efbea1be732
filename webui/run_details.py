"""What is told of runs: one line of each for a list, everything of one for its page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

from seq2seq_chat.config import Config, ConfigError
from seq2seq_chat.experiments import Summary, metrics
from seq2seq_chat.runs import Run
from webui.catalogue import snapshots, without_paths
from webui.limits import Limits
from webui.options import defaults, options

POINTS = 400  # of a learning curve: more than a screen has room for
SAMPLES = 2000  # replies over time that are sent, the newest
FILES = 200  # pictures of a report that are looked for
PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp", ".jpg": "image/jpeg"}
PAGES = {".html": "text/html; charset=utf-8"}


def line_of(summary: Summary, folder: Path) -> dict[str, Any]:
    """A run in a list."""
    line = summary._asdict()
    line["reason"] = without_paths(summary.reason, folder) if summary.reason else None
    return line


def page_of(run: Run, summary: Summary, results: Path, limits: Limits) -> dict[str, Any]:
    """A run with all that its page shows; a damaged configuration leaves out what it would have told."""
    try:
        config: Optional[Config] = run.config
    except ConfigError:
        config = None
    return {
        **line_of(summary, results),
        "snapshots": snapshots(run),
        "config": config.model_dump(mode="json") if config else None,
        "decoding": {
            "options": options(limits),
            "defaults": defaults(config.decoding, limits) if config else {},
            "method": config.decoding.method if config else None,
        },
        "context_turns": getattr(config.data, "context_turns", 0) if config else 0,
        "curves": curves(run),
        "samples": samples(run),
        "checks": checks(results, config.name) if config else None,
        "files": sorted(report_files(run)),
    }


def curves(run: Run) -> dict[str, list[list[float]]]:
    """Losses by step, [[step, loss], …] of training and validation, in nats; long ones are averaged to POINTS."""
    found: dict[str, list[list[float]]] = {"train": [], "validation": []}
    for line in metrics(run.metrics_file):
        loss = line.get("loss")
        if line.get("kind") in found and isinstance(loss, (int, float)) and math.isfinite(loss):
            found[line["kind"]].append([line["step"], round(float(loss), 5)])
    return {kind: _thinned(points) for kind, points in found.items()}


def samples(run: Run) -> list[dict[str, Any]]:
    """Replies while training, oldest first."""
    texts = ("source", "reply", "target")
    lines = [
        {"step": line["step"], **{key: str(line.get(key, ""))[:2000] for key in texts}}
        for line in metrics(run.samples_file, most_bytes=2**21)
    ]
    return lines[-SAMPLES:]


def checks(results: Path, name: str) -> Optional[dict[str, Any]]:
    """The verdicts of the newest checks of an experiment of this name; None where it was never checked."""
    try:
        folders = sorted((results / "checks").iterdir(), reverse=True)
    except OSError:
        return None
    for folder in folders:
        time, _, rest = folder.name[:20], None, folder.name[20:]
        if rest == name or (rest.startswith(f"{name}-") and rest[len(name) + 1 :].isdigit()):
            verdicts = _verdicts(folder / "checks.json", results)
            if verdicts is not None:
                return {"time": time.rstrip("_").replace("_", " "), **verdicts}
    return None


def report_files(run: Run) -> dict[str, Path]:
    """Pictures and pages of a report about this run, by the name they are asked for with."""
    found: dict[str, Path] = {}
    for folder in (run.path, run.path / "report", run.path / "analysis"):
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for path in entries:
            known = path.suffix in PICTURES or path.suffix in PAGES
            if known and path.is_file() and not path.is_symlink() and len(found) < FILES:
                found[path.relative_to(run.path).as_posix().replace("/", "--")] = path
    return found


def _verdicts(file: Path, results: Path) -> Optional[dict[str, Any]]:
    try:
        told = json.loads(file.read_text(encoding="utf-8")[: 2**20])
        keys = ("check", "passed", "figure", "threshold", "detail")
        lines = [{key: verdict.get(key) for key in keys} for verdict in told["checks"][:100]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    for line in lines:
        line["detail"] = without_paths(str(line["detail"] or ""), results)
    return {"passed": bool(told.get("passed")), "checks": lines}


def _thinned(points: Iterable[list[float]]) -> list[list[float]]:
    """At most POINTS of them: means of equally many neighbours, at the step of the last one."""
    points = list(points)
    size = math.ceil(len(points) / POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [[group[-1][0], round(sum(loss for _, loss in group) / len(group), 5)] for group in groups]
