"""The audit report as a list of blocks, which HTML and PDF render alike."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slurm_topo.report.comparison import figures
from slurm_topo.report.comparison.blocks import (
    Block,
    Code,
    Figure,
    Heading,
    Paragraph,
    Signatures,
    Table,
    Verdict,
)
from slurm_topo.report.comparison.costs import Line
from slurm_topo.report.comparison.result import Comparison, moment
from slurm_topo.report.text import counted, digits, figure, interval, number, percent
from slurm_topo.report.values import Value

TITLE = "Cost comparison before and after placement"
MOST_PROGRAMS = 25


def blocks(c: Comparison) -> Iterator[Block]:
    """The whole document, section by section."""
    yield from _summary(c)
    yield from _scope(c)
    yield from _method(c)
    yield from _runs(c)
    yield from _model(c)
    yield from _result(c)
    yield from _costs(c)
    yield from _evidence(c)
    yield from _signatures()


def shown(value: Value) -> str:
    """A value with its interval and origin."""
    if value.value is None:
        return "missing"
    within = f" ({interval(value)})" if interval(value) else ""
    return f"{figure(value).rstrip('~')}{within}"


def _summary(c: Comparison) -> Iterator[Block]:
    kind = {"saving": "good", "loss": "bad"}.get(c.analysis.verdict, "unsure")
    level = percent(c.method.level).replace(".0", "")
    detail = f"Median change of the time of a run: {_change(c.saving)}"
    if interval(c.saving):
        detail += f", {level} interval of the saving {interval(c.saving)}"
    yield Verdict(
        c.analysis.verdict, f"{detail}. {c.analysis.because[:1].upper()}{c.analysis.because[1:]}.", kind
    )
    yield Paragraph(
        "This document compares measured runs so that others can check it. It is not a certificate, not a "
        "statement of conformity, and not a guarantee for other programs, machines or times."
    )
    net = _net(c)
    rows = [
        ("Runs compared", f"{c.before:,} before, {c.after:,} after, of {c.runs:,}", "measured"),
        ("Saving of time", shown(c.saving), c.saving.origin),
        ("Node-hours avoided", shown(c.analysis.avoided), c.analysis.avoided.origin),
        ("Node-hours avoided, less the intervention", shown(net), net.origin),
    ]
    for line in c.costs.quantities[3:]:
        rows.append((line.name[:1].upper() + line.name[1:], shown(line.value), line.value.origin))
    for line in c.costs.amounts:
        if line.value.known:
            rows.append((f"Amount {line.name}", shown(line.value), line.value.origin))
    yield Table(("Figure", "Value and interval", "Origin"), tuple(rows), (0.4, 0.42, 0.18))


def _change(saving: Value) -> str:
    return "not known" if saving.value is None else f"{-saving.value * 100:+.1f} %"


def _net(c: Comparison) -> Value:
    """Node-hours avoided less those of launches and tracing, as far as these are known."""
    spent = [line.value.value for line in c.costs.intervention if line.value.unit == "node-h"]
    if c.analysis.avoided.value is None or all(s is None for s in spent):
        return Value(None, "node-h", "missing")
    less = sum(s for s in spent if s is not None)
    a = c.analysis.avoided
    low, high = (None if v is None else v - less for v in (a.low, a.high))
    return Value((a.value or 0.0) - less, "node-h", "modelled", low, high, a.n)


def _scope(c: Comparison) -> Iterator[Block]:
    yield Heading("Scope and boundary")
    chosen = ", ".join(f"{k} {v}" for k, v in c.filters) or "all runs of known programs"
    rows = (
        ("Records", c.source),
        ("Chosen", chosen),
        ("First and last start", f"{moment(c.first)} to {moment(c.last)}"),
        ("Measured", "wall time of the numbered steps of a job, else of the job, from accounting"),
        ("Boundary", "the nodes of the runs; cooling and power supply through PUE; nothing else"),
    )
    yield Table(("Item", "What holds"), rows, (0.22, 0.78))


def _method(c: Comparison) -> Iterator[Block]:
    m, b = c.method, c.analysis.baseline
    yield Heading("Method")
    yield Paragraph(
        "IPMVP option B (all parameters of the change measured), on/off: savings are the adjusted baseline "
        "less what was measured. This section comes from the method (a file, or the defaults of this "
        "release), never from the runs, and is hashed."
    )
    terms = ", ".join(b.terms) if b and b.terms else "none"
    unknown = f"; not possible: {', '.join(c.analysis.unknown)}" if c.analysis.unknown else ""
    estimand = {
        "assigned": "runs as assigned: a run that stood down counts on the side it was drawn for",
        "placed": "runs that really ran where a plan put them, against runs that were not to be placed",
        "calendar": "runs that were placed against all that were not; not drawn at random: a weaker design",
    }[m.estimand]
    inference = {
        "programs": "programs and users are a sample: whole clusters are resampled, the adjustments fitted "
        "again each time; few clusters widen the interval (Student, effective number of clusters)",
        "runs": "only these programs: runs vary, programs do not",
    }[m.inference]
    limits = (
        f"CV(RMSE) {percent(m.cv_rmse_limit)}, NMBE {percent(m.nmbe_limit)} (by default those of ASHRAE "
        f"Guideline 14 for hourly data); at least {m.fewest_pairs} pairs and {m.fewest_clusters} effective "
        "programs"
    )
    verdicts = (
        "saving or loss: the whole interval on one side of zero; no material difference: the whole interval "
        f"within {percent(m.material)}; otherwise, or outside a limit: inconclusive"
    )
    rows = (
        ("Assignment", c.design),
        ("Compared", estimand),
        ("Pairing key", f"{', '.join(m.key)}; runs of a key meet in the order of time, evenly spread"),
        ("Adjusted for", terms + unknown),
        ("Statistic", "median of the paired differences of the logarithm of adjusted times"),
        ("Interval", f"{percent(m.level)}, {m.repetitions:,} resamples, seed {m.seed}; {inference}"),
        ("Limits", limits),
        ("Verdicts", verdicts),
        ("SHA-256", m.digest),
    )
    yield Table(("Item", "What was fixed"), rows, (0.18, 0.82))


def _runs(c: Comparison) -> Iterator[Block]:
    yield Heading("Runs")
    excluded = [(f"excluded: {reason}", f"{count:,}") for reason, count in c.excluded]
    rows = (
        ("before, compared", f"{c.before:,}"),
        ("after, compared", f"{c.after:,}"),
        *excluded,
        ("all runs", f"{c.before + c.after + sum(n for _, n in c.excluded):,}"),
    )
    yield Table(("Runs", ">Number"), rows, (0.75, 0.25))
    yield Paragraph(
        "Every run has one line in records.csv with its fate, its partner and its digest.", soft=True
    )


def _model(c: Comparison) -> Iterator[Block]:
    yield Heading("Baseline model")
    b, m = c.analysis.baseline, c.method
    if b is None:
        yield Paragraph("There is none: no run has a partner.")
        return
    yield Paragraph(
        "Logarithm of the time = one level a key + slopes x adjustments, fitted on the runs before; goodness "
        "on predictions that leave the run itself out."
    )
    goodness = (
        ("CV(RMSE)", _ratio(b.cv_rmse), percent(m.cv_rmse_limit), _within(b.cv_rmse, m.cv_rmse_limit)),
        ("NMBE", _ratio(b.nmbe), percent(m.nmbe_limit), _within(abs(b.nmbe), m.nmbe_limit)),
    )
    yield Table(("Goodness", ">Value", ">Limit", "Within"), goodness, (0.4, 0.2, 0.2, 0.2))
    slopes = tuple((t, f"{s:+.4f}") for t, s in zip(b.terms, b.slopes, strict=True))
    yield Table(
        ("Term", ">Slope"),
        (*slopes, ("runs", f"{b.runs:,}"), ("keys", f"{b.keys:,}")),
        (0.6, 0.4),
    )


def _ratio(value: float) -> str:
    return percent(value) if math.isfinite(value) else "not known"


def _within(value: float, limit: float) -> str:
    return "yes" if value <= limit else "no"


def _result(c: Comparison) -> Iterator[Block]:
    e, m = c.analysis.effect, c.method
    yield Heading("Result")
    size = f"{e.standardised:+.2f}" if math.isfinite(e.standardised) else "not known"
    rows = (
        ("Median saving of time", shown(c.saving)),
        ("Pairs, programs and users, effective", f"{e.pairs:,}, {e.clusters:,}, {e.effective_clusters:.1f}"),
        ("Pairs in which the run after was faster", _ratio(e.faster)),
        ("Effect size (median over 1.4826 MAD; negative is faster)", size),
        (f"Power for a saving of {percent(m.target)}", _ratio(e.power)),
        ("Smallest saving found with 80 % power", _ratio(e.detectable)),
        ("Verdict", f"{c.analysis.verdict}: {c.analysis.because}"),
    )  # fmt: skip
    yield Table(("Figure", "Value"), rows, (0.45, 0.55))
    if c.analysis.pairs is not None and len(c.analysis.pairs.difference) > 1:
        picture = figures.histogram(c.analysis.pairs.difference, c.saving)
        yield Figure(
            picture,
            "Paired differences of time; the line is their median, the band its interval, "
            "the outermost bars hold all beyond.",
        )
    yield Paragraph("Does the result hang on a choice? The same comparison with one choice changed:")
    other = tuple((a.name, a.verdict, shown(a.saving), f"{a.pairs:,}") for a in c.alternatives)
    yield Table(("Changed", "Verdict", "Saving", ">Pairs"), other, (0.26, 0.26, 0.34, 0.14))
    top = c.programs[:MOST_PROGRAMS]
    if top:
        yield Paragraph(
            f"By program and user, most node-hours avoided first ({len(top)} of {len(c.programs):,}):"
        )
        lines = tuple(
            (
                p.name,
                p.user,
                f"{p.before:,}",
                f"{p.after:,}",
                figure(p.saving),
                digits(p.avoided.value or 0.0),
            )
            for p in top
        )
        header = ("Program", "User", ">Before", ">After", ">Saving", ">Node-h avoided")
        yield Table(header, lines, (0.3, 0.18, 0.12, 0.12, 0.13, 0.15))


def _line(line: Line) -> tuple[str, str, str, str]:
    return line.name, shown(line.value), line.value.origin, line.how


def _costs(c: Comparison) -> Iterator[Block]:
    header, widths = ("Figure", "Value and interval", "Origin", "How"), (0.2, 0.3, 0.12, 0.38)
    yield Heading("What was avoided")
    yield Table(header, tuple(_line(line) for line in c.costs.quantities), widths)
    yield Heading("Costs")
    if c.prices.prices:
        yield Paragraph(f"Prices in {c.prices.currency} of {c.prices.date}, as given by the site:")
        given = tuple(
            (
                p.name,
                f"{digits(p.value)} {p.unit}",
                _range(p.low, p.high) + (" (assumed)" if p.assumed_range else ""),
                p.source or "not said",
            )
            for p in c.prices.prices.values()
        )
        yield Table(("Input", "Value", "Range", "Source"), given, (0.22, 0.28, 0.28, 0.22))
    else:
        yield Paragraph("No prices were given: all amounts are missing.")
    yield Paragraph(
        "The amounts are alternatives, each another view of the same hours. They must not be added up."
    )
    yield Table(header, tuple(_line(line) for line in c.costs.amounts), widths)
    if c.costs.sensitivity:
        yield Paragraph("Each figure with one input at the low and the high end of its range:")
        rows = tuple(
            (s.name, s.input, _range(s.low_input, s.high_input), f"{_range(s.low, s.high)} {s.unit}")
            for s in c.costs.sensitivity
        )
        yield Table(
            ("Figure", "Input", "Input from .. to", "Figure from .. to"), rows, (0.28, 0.2, 0.24, 0.28)
        )
        yield Figure(figures.tornado(c), "Sensitivity of the amounts to each input.")
    yield Heading("Cost of the intervention")
    yield Table(header, tuple(_line(line) for line in c.costs.intervention), widths)


def _range(low: float, high: float) -> str:
    return f"{digits(low)} .. {digits(high)}"


def _evidence(c: Comparison) -> Iterator[Block]:
    yield Heading("Evidence")
    yield Table(("SHA-256 of", "Digest"), c.digests, (0.22, 0.78))
    yield Table(("Software", "Version"), c.versions, (0.22, 0.78))
    yield Paragraph("This command makes the same files again, byte for byte, from the same records:")
    yield Code(c.command)
    yield Paragraph(
        "Measured: clocks, accounting and energy counters. Modelled: computed from measured figures with a "
        "model or a price. Missing: not known, and not guessed. Intervals are those of the method.",
        soft=True,
    )


def _signatures() -> Iterator[Block]:
    yield Heading("Signatures")
    yield Paragraph("To be filled in by those who prepared and those who checked this comparison.", soft=True)
    yield Signatures(("Prepared by", "Checked by"))


def headline(c: Comparison) -> str:
    """The comparison in five lines, for a terminal."""
    excluded = "; ".join(f"{reason}: {count:,}" for reason, count in c.excluded) or "none"
    e = c.analysis.effect
    lines = [
        f"verdict   {c.analysis.verdict}: {c.analysis.because}",
        f"saving    {shown(c.saving)}; {counted(e.pairs, 'pair')}, {counted(e.clusters, 'program')}",
        f"avoided   {shown(c.analysis.avoided)}",
        f"runs      {c.before:,} before, {c.after:,} after, {c.runs:,} in all",
        f"excluded  {excluded}",
    ]
    if c.analysis.baseline is not None:
        b = c.analysis.baseline
        lines.append(f"baseline  CV(RMSE) {_ratio(b.cv_rmse)}, NMBE {_ratio(b.nmbe)}")
    for line in c.costs.amounts:
        if line.value.value is not None:
            lines.append(f"{'costs':10s}{line.name}: {number(line.value.value, line.value.unit)} avoided")
    return "\n".join(lines) + "\n"
