-- How the ranks of a placed run lay on their nodes (spread, packed; empty: there was one way only), and the way that a
-- program's own times have shown to be faster.

ALTER TABLE programs ADD COLUMN variant VARCHAR(16);
ALTER TABLE programs ADD COLUMN variant_reason VARCHAR(1024) NOT NULL DEFAULT '';
ALTER TABLE programs ADD COLUMN variant_time BIGINT;
ALTER TABLE jobs ADD COLUMN variant VARCHAR(16) NOT NULL DEFAULT '';
ALTER TABLE decisions ADD COLUMN variant VARCHAR(16) NOT NULL DEFAULT '';
