//! What distinguishes a launch from every other one.

/// Returns the launch's distinguishing name: what the shim in the launcher has put into the
/// environment, or what the process manager or the batch system says. `None`: there is nothing to
/// go by, and the check is left out.
pub fn nonce(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let own = variable("SCR_LAUNCH_NONCE").or_else(|| variable("PMIX_NAMESPACE"));
    let step = || {
        let job = variable("SLURM_JOB_ID")?;
        let step = variable("SLURM_STEP_ID")?;
        let restarts = variable("SLURM_RESTART_COUNT").unwrap_or_default();
        Some(format!("{job}.{step}.{restarts}"))
    };
    let text = own.or_else(step)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = text.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    (!name.is_empty() && name.len() <= 128).then_some(name)
}
