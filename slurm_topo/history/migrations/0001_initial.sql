-- The history as it was first released. {serial}, {double} and {blob} are the database's own types.
-- All times are whole seconds since the epoch, UTC; sizes are bytes, energies joules.

CREATE TABLE programs (
    id {serial},
    user_name VARCHAR(255) NOT NULL,
    uid BIGINT,
    account VARCHAR(255) NOT NULL DEFAULT '',
    name VARCHAR(1024) NOT NULL DEFAULT '',
    ranks INTEGER,
    cpus_per_task INTEGER,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    graph VARCHAR(64),
    arm VARCHAR(16),
    arm_reason VARCHAR(1024) NOT NULL DEFAULT '',
    arm_time BIGINT
);
CREATE INDEX programs_by_user ON programs (user_name, account);

CREATE TABLE program_keys (
    program_id INTEGER NOT NULL REFERENCES programs (id),
    fingerprint VARCHAR(32) NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    PRIMARY KEY (program_id, fingerprint)
);
CREATE INDEX program_keys_by_fingerprint ON program_keys (fingerprint, last_seen);

CREATE TABLE jobs (
    id {serial},
    cluster VARCHAR(255) NOT NULL DEFAULT '',
    job BIGINT NOT NULL,
    submitted BIGINT NOT NULL,
    program_id INTEGER REFERENCES programs (id),
    user_name VARCHAR(255) NOT NULL DEFAULT '',
    uid BIGINT,
    account VARCHAR(255) NOT NULL DEFAULT '',
    partition_name VARCHAR(255) NOT NULL DEFAULT '',
    name VARCHAR(1024) NOT NULL DEFAULT '',
    array_job BIGINT,
    array_task BIGINT,
    het_job BIGINT,
    het_offset INTEGER,
    state VARCHAR(32) NOT NULL DEFAULT 'UNKNOWN',
    final INTEGER NOT NULL DEFAULT 0,
    exit_code VARCHAR(16) NOT NULL DEFAULT '',
    started BIGINT,
    ended BIGINT,
    elapsed_s {double},
    run_s {double},
    nodes INTEGER,
    cpus INTEGER,
    tasks INTEGER,
    gpus INTEGER,
    node_list TEXT NOT NULL DEFAULT '',
    alloc_tres TEXT NOT NULL DEFAULT '',
    cpu_s {double},
    energy_j {double},
    admin_comment TEXT NOT NULL DEFAULT '',
    comment TEXT NOT NULL DEFAULT '',
    fingerprints VARCHAR(255) NOT NULL DEFAULT '',
    arm VARCHAR(16) NOT NULL DEFAULT '',
    arm_reason VARCHAR(255) NOT NULL DEFAULT '',
    advised_graph VARCHAR(64),
    placed INTEGER NOT NULL DEFAULT 0,
    decision VARCHAR(32) NOT NULL DEFAULT '',
    reason VARCHAR(1024) NOT NULL DEFAULT '',
    UNIQUE (cluster, job, submitted)
);
CREATE INDEX jobs_by_program ON jobs (program_id, ended);
CREATE INDEX jobs_by_time ON jobs (submitted);
CREATE INDEX jobs_open ON jobs (final, submitted);

CREATE TABLE machines (
    digest VARCHAR(64) NOT NULL PRIMARY KEY,
    cores INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    description TEXT NOT NULL,
    first_seen BIGINT NOT NULL
);

CREATE TABLE graphs (
    digest VARCHAR(64) NOT NULL PRIMARY KEY,
    ranks INTEGER NOT NULL,
    edges INTEGER NOT NULL,
    nbytes {double} NOT NULL,
    messages {double} NOT NULL,
    content {blob} NOT NULL,
    meta TEXT NOT NULL DEFAULT '',
    first_seen BIGINT NOT NULL
);

CREATE TABLE steps (
    id {serial},
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    step VARCHAR(32) NOT NULL,
    name VARCHAR(1024) NOT NULL DEFAULT '',
    state VARCHAR(32) NOT NULL DEFAULT 'UNKNOWN',
    exit_code VARCHAR(16) NOT NULL DEFAULT '',
    started BIGINT,
    ended BIGINT,
    elapsed_s {double},
    nodes INTEGER,
    cpus INTEGER,
    tasks INTEGER,
    node_list TEXT NOT NULL DEFAULT '',
    cpu_s {double},
    average_cpu_s {double},
    max_rss {double},
    energy_j {double},
    usage_text TEXT NOT NULL DEFAULT '',
    graph VARCHAR(64) REFERENCES graphs (digest),
    graph_complete INTEGER NOT NULL DEFAULT 0,
    machine VARCHAR(64) REFERENCES machines (digest),
    cost_before {double},
    cost_after {double},
    bindings TEXT NOT NULL DEFAULT '',
    UNIQUE (job_id, step)
);
CREATE INDEX steps_by_graph ON steps (graph);

CREATE TABLE traffic (
    step_id INTEGER NOT NULL REFERENCES steps (id),
    side VARCHAR(8) NOT NULL,
    depth INTEGER NOT NULL,
    level VARCHAR(32) NOT NULL,
    nbytes {double} NOT NULL,
    PRIMARY KEY (step_id, side, depth)
);

CREATE TABLE decisions (
    id {serial},
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    step VARCHAR(32),
    decided BIGINT NOT NULL,
    source VARCHAR(16) NOT NULL,
    decision VARCHAR(32) NOT NULL,
    reason VARCHAR(1024) NOT NULL DEFAULT '',
    arm VARCHAR(16) NOT NULL DEFAULT '',
    ranks INTEGER,
    cost {double},
    baseline {double},
    baseline_name VARCHAR(32) NOT NULL DEFAULT '',
    graph VARCHAR(64),
    machine VARCHAR(64),
    solver VARCHAR(255) NOT NULL DEFAULT '',
    seconds {double},
    plan_path TEXT NOT NULL DEFAULT '',
    plan TEXT NOT NULL DEFAULT '',
    record_digest VARCHAR(64) NOT NULL,
    UNIQUE (job_id, record_digest)
);
CREATE INDEX decisions_by_reason ON decisions (decision, reason);

CREATE TABLE files (
    path VARCHAR(1024) NOT NULL,
    content_digest VARCHAR(64) NOT NULL,
    uid BIGINT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    size BIGINT NOT NULL,
    job BIGINT,
    step VARCHAR(32),
    node VARCHAR(255) NOT NULL DEFAULT '',
    status VARCHAR(16) NOT NULL,
    reason VARCHAR(1024) NOT NULL DEFAULT '',
    seen BIGINT NOT NULL,
    PRIMARY KEY (path, content_digest)
);
CREATE INDEX files_by_job ON files (job, kind);

CREATE TABLE sync_state (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
