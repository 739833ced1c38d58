//! Which policies a Lustre server orders requests by, as it says itself.

/// Returns what to set `nrs_policies` to so that a server does again what it does now; nothing if its answer makes no sense.
///
/// A server has two queues, for regular requests and for those of high priority, and for each a list of policies. `fifo` is what it falls
/// back on; at most one other is started beside it, and that one orders the requests.
pub fn former_policies(answer: &str) -> Vec<String> {
    let (mut regular, mut high) = (None, None);
    let mut queue = None;
    let (mut name, mut is_started) = ("", false);
    for line in answer.lines().map(str::trim) {
        match line.split_once(':').map(|(key, value)| (key.trim_start_matches("- ").trim(), value.trim())) {
            Some(("regular_requests", _)) => queue = Some(&mut regular),
            Some(("high_priority_requests", _)) => queue = Some(&mut high),
            Some(("name", value)) => (name, is_started) = (value, false),
            Some(("state", value)) => is_started = value == "started",
            Some(("fallback", value)) if is_started => {
                if let Some(queue) = &mut queue {
                    let is_first = queue.is_none();
                    if is_first || value == "no" {
                        **queue = Some(name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    match (regular, high) {
        (Some(regular), Some(high)) if regular == high => vec![regular],
        (regular, high) => {
            let of = |policy: Option<String>, queue: &str| policy.map(|policy| format!("{policy} {queue}"));
            of(regular, "reg").into_iter().chain(of(high, "hp")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the Lustre manual shows it.
    fn answer(regular: &str, high: &str) -> String {
        let queue = |started: &str| -> String {
            ["fifo", "crrn", "orr", "trr", "tbf jobid"]
                .map(|name| {
                    let state = if name == "fifo" || name == started { "started" } else { "stopped" };
                    let fallback = if name == "fifo" { "yes" } else { "no" };
                    format!("  - name: {name}\n    state: {state}\n    fallback: {fallback}\n    queued: 0\n    active: 0\n\n")
                })
                .concat()
        };
        format!("\nregular_requests:\n{}high_priority_requests:\n{}", queue(regular), queue(high))
    }

    #[test]
    fn the_policy_that_is_started_beside_the_last_resort_is_the_one() {
        assert_eq!(former_policies(&answer("fifo", "fifo")), ["fifo"]);
        assert_eq!(former_policies(&answer("trr", "trr")), ["trr"]);
        assert_eq!(former_policies(&answer("tbf jobid", "tbf jobid")), ["tbf jobid"]);
        assert_eq!(former_policies(&answer("crrn", "fifo")), ["crrn reg", "fifo hp"]);
        assert_eq!(former_policies("error: get_param: param_path not found"), [""; 0]);
        assert_eq!(former_policies(""), [""; 0]);
    }
}
