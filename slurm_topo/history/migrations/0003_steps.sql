-- What is known of steps by their own command line or executable, and how a search at launch ended.

CREATE TABLE step_keys (
    uid BIGINT NOT NULL,
    fingerprint VARCHAR(32) NOT NULL,
    ranks INTEGER,
    graph VARCHAR(64) REFERENCES graphs (digest),
    in_vain INTEGER NOT NULL DEFAULT 0,
    seen BIGINT NOT NULL,
    PRIMARY KEY (uid, fingerprint)
);

ALTER TABLE decisions ADD COLUMN search VARCHAR(16) NOT NULL DEFAULT '';
