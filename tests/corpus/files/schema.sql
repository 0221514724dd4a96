CREATE TABLE coupe (id INTEGER PRIMARY KEY, cut INTEGER NOT NULL, poles INTEGER);
CREATE TABLE tree (coupe INTEGER REFERENCES coupe (id), kind TEXT, stems INTEGER);
CREATE INDEX tree_kind ON tree (kind);
BEGIN;
INSERT INTO coupe VALUES (1, 1997, 5400), (2, 1998, 6100), (3, 1999, 2950), (4, 2000, 0);
INSERT INTO tree VALUES (1, 'hazel', 14), (1, 'ash', 9), (2, 'hazel', 22), (3, 'oak', 3), (3, 'lime', 6);
COMMIT;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO tree SELECT 4, 'seedling-' || i, i % 5 FROM n;
