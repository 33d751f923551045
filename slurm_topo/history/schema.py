"""The tables of the history, as the newest migration leaves them (a test compares both).

Times are whole seconds since the epoch, UTC; sizes are bytes, time spans seconds, energies joules. ``None``
means that the value is not known: it is never 0 by default.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()


def _text(name: str, length: int = 255) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default="")


def _long(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


# One program of one user in one shape, recognised by its fingerprint keys.
programs = Table(
    "programs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_name", String(255), nullable=False),
    Column("uid", BigInteger),
    _text("account"),
    _text("name", 1024),
    Column("ranks", Integer),
    Column("cpus_per_task", Integer),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    # Digest of the graph that its runs are placed with.
    Column("graph", String(64)),
    # Set where the program was switched back by its measurements; None: the site's arm holds.
    Column("arm", String(16)),
    _text("arm_reason", 1024),
    Column("arm_time", BigInteger),
    # What its times have shown to be faster; None: nothing yet, ranks are spread.
    Column("variant", String(16)),
    _text("variant_reason", 1024),
    Column("variant_time", BigInteger),
    Index("programs_by_user", "user_name", "account"),
)

# Many keys lead to one program; one key may lead to several (the newest wins).
program_keys = Table(
    "program_keys",
    metadata,
    Column("program_id", ForeignKey("programs.id"), primary_key=True, type_=Integer),
    Column("fingerprint", String(32), primary_key=True),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Index("program_keys_by_fingerprint", "fingerprint", "last_seen"),
)

# One submission. A requeued job is one row (its last run), a reused job id is another (other submit time).
jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("cluster"),
    Column("job", BigInteger, nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("program_id", ForeignKey("programs.id"), type_=Integer),
    _text("user_name"),
    Column("uid", BigInteger),
    _text("account"),
    _text("partition_name"),
    _text("name", 1024),
    Column("array_job", BigInteger),
    Column("array_task", BigInteger),
    Column("het_job", BigInteger),
    Column("het_offset", Integer),
    Column("state", String(32), nullable=False, server_default="UNKNOWN"),
    # 1: the accounting record is closed, it will not change any more.
    Column("final", Integer, nullable=False, server_default="0"),
    _text("exit_code", 16),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("elapsed_s", Double),
    # Sum of its numbered (srun) steps: what placing can change.
    Column("run_s", Double),
    Column("nodes", Integer),
    Column("cpus", Integer),
    Column("tasks", Integer),
    Column("gpus", Integer),
    _long("node_list"),
    _long("alloc_tres"),
    Column("cpu_s", Double),
    Column("energy_j", Double),
    _long("admin_comment"),
    _long("comment"),
    _text("fingerprints"),
    # Arm drawn at submission; empty: the submit hook did not see the job.
    _text("arm", 16),
    _text("arm_reason"),
    Column("advised_graph", String(64)),
    # 1: at least one step ran where a plan put it.
    Column("placed", Integer, nullable=False, server_default="0"),
    # The last decision at launch and its reason.
    _text("decision", 32),
    _text("reason", 1024),
    # How the ranks of its placed steps lay on their nodes; empty: one way only, or different ones.
    _text("variant", 16),
    UniqueConstraint("cluster", "job", "submitted"),
    Index("jobs_by_program", "program_id", "ended"),
    Index("jobs_by_time", "submitted"),
    Index("jobs_open", "final", "submitted"),
)

machines = Table(
    "machines",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("cores", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("description", Text, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
)

graphs = Table(
    "graphs",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("ranks", Integer, nullable=False),
    Column("edges", Integer, nullable=False),
    Column("nbytes", Double, nullable=False),
    Column("messages", Double, nullable=False),
    # The .npz of docs/formats.md.
    Column("content", LargeBinary, nullable=False),
    _long("meta"),
    Column("first_seen", BigInteger, nullable=False),
)

# What is known of steps by their own key (docs/formats.md): the user's word in a trace, for this user alone.
step_keys = Table(
    "step_keys",
    metadata,
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("fingerprint", String(32), primary_key=True),
    Column("ranks", Integer),
    Column("graph", ForeignKey("graphs.digest"), type_=String(64)),
    # Traces since the last graph that showed no traffic.
    Column("in_vain", Integer, nullable=False, server_default="0"),
    Column("seen", BigInteger, nullable=False),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False, type_=Integer),
    # ``batch``, ``extern``, ``interactive`` or a number.
    Column("step", String(32), nullable=False),
    _text("name", 1024),
    Column("state", String(32), nullable=False, server_default="UNKNOWN"),
    _text("exit_code", 16),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("elapsed_s", Double),
    Column("nodes", Integer),
    Column("cpus", Integer),
    Column("tasks", Integer),
    _long("node_list"),
    Column("cpu_s", Double),
    Column("average_cpu_s", Double),
    Column("max_rss", Double),
    Column("energy_j", Double),
    # TRESUsageInTot and TRESUsageOutTot as sacct printed them, joined by a blank.
    _long("usage_text"),
    Column("graph", ForeignKey("graphs.digest"), type_=String(64)),
    Column("graph_complete", Integer, nullable=False, server_default="0"),
    Column("machine", ForeignKey("machines.digest"), type_=String(64)),
    Column("cost_before", Double),
    Column("cost_after", Double),
    # JSON: {"nodes": [name, ...], "rank": [[node, "cpus"], ...]}, where the ranks really were.
    _long("bindings"),
    UniqueConstraint("job_id", "step"),
    Index("steps_by_graph", "graph"),
)

# Bytes by the level at which sender and receiver meet. Side ``before``: without us (where a traced, unplaced
# step really ran, or the baseline of a placed one); side ``after``: where the plan put the ranks.
traffic = Table(
    "traffic",
    metadata,
    Column("step_id", ForeignKey("steps.id"), primary_key=True, type_=Integer),
    Column("side", String(8), primary_key=True),
    # 0 is the innermost level.
    Column("depth", Integer, primary_key=True),
    Column("level", String(32), nullable=False),
    Column("nbytes", Double, nullable=False),
)

# What was decided at launch, with both figures.
decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False, type_=Integer),
    # None: srun decides before the step has a number.
    Column("step", String(32)),
    Column("decided", BigInteger, nullable=False),
    # ``srun`` or ``task``.
    Column("source", String(16), nullable=False),
    Column("decision", String(32), nullable=False),
    _text("reason", 1024),
    _text("arm", 16),
    Column("ranks", Integer),
    Column("cost", Double),
    Column("baseline", Double),
    _text("baseline_name", 32),
    Column("graph", String(64)),
    Column("machine", String(64)),
    _text("solver"),
    # Spent in srun.
    Column("seconds", Double),
    _long("plan_path"),
    _long("plan"),
    _text("variant", 16),
    Column("record_digest", String(64), nullable=False),
    # ``work``, ``budget`` (the search's time was up) or ``interrupted``; empty: not told.
    _text("search", 16),
    UniqueConstraint("job_id", "record_digest"),
    Index("decisions_by_reason", "decision", "reason"),
)

# Every spool file that was read: nothing is read twice, nothing is lost without a line here.
files = Table(
    "files",
    metadata,
    Column("path", String(1024), primary_key=True),
    Column("content_digest", String(64), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    # ``trace``, ``record`` or ``plan``.
    Column("kind", String(16), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("job", BigInteger),
    Column("step", String(32)),
    _text("node"),
    # ``read`` or ``rejected``.
    Column("status", String(16), nullable=False),
    _text("reason", 1024),
    Column("seen", BigInteger, nullable=False),
    Index("files_by_job", "job", "kind"),
)

sync_state = Table(
    "sync_state",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
