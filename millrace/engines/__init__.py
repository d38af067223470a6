"""One folder for each engine, which holds all of it; `registry` finds them, `job` is what the verbs ask of one."""
