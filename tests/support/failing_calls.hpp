// Lets the system calls of an operation fail, one after the other.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace ipoib::test {

/// Runs an operation in processes of their own: in the first one its first call of these kinds
/// fails with `error`, in the second one its second call, and so on, until none fails. Returns the
/// names of these calls, each with what the operation has returned then, "call: text"; calls in a
/// row with the same line have one. An operation that returns the text of its error so shows that
/// it reports each one, and which. Needs a kernel that lets the process decide on its calls
/// (seccomp(2), Linux 5.5); ends with a failure of the test without it.
[[nodiscard]] std::vector<std::string> outcomes_if_each_fails(
    std::initializer_list<int> calls, int error, const std::function<std::string()>& operation);

}  // namespace ipoib::test
