//! Ranks and nodes die, or a step fails, at every durable step.
