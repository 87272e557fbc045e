CREATE TABLE IF NOT EXISTS llama_bench (
  build_commit TEXT,
  build_number INTEGER,
  model_filename TEXT,
  n_prompt INTEGER,
  n_gen INTEGER,
  n_depth INTEGER,
  avg_ts REAL,
  stddev_ts REAL
);

INSERT INTO llama_bench (build_commit, build_number, model_filename, n_prompt, n_gen, n_depth, avg_ts, stddev_ts) VALUES ('cb77a2a', '6000', 'm.gguf', '512', '0', '0', '1200.5', '1.2');
INSERT INTO llama_bench (build_commit, build_number, model_filename, n_prompt, n_gen, n_depth, avg_ts, stddev_ts) VALUES ('cb77a2a', '6000', 'm.gguf', '0', '128', '0', '41.5', '0.2');
