// Commands that go on: monitor, wait, top.
#pragma once

#include <functional>
#include <string>

#include "command.hpp"

namespace ipoib::ibarp {

/// Prints at once; returns false when nobody reads the output any more.
using PrintLine = std::function<bool(const std::string&)>;

/// Prints changes until it is killed or nobody reads. Throws Failure if nothing can be watched at
/// the start.
[[nodiscard]] Status monitor(const Command& command, const PrintLine& print);
/// Captures packets until the user, a limit or --count ends it.
[[nodiscard]] Status capture(const Command& command);
/// Waits until the interfaces are up or down. Throws Failure with what is missing after the
/// timeout.
[[nodiscard]] Status wait_for(const Command& command);
/// Shows interfaces and neighbours with their rates until the user or --count ends it.
[[nodiscard]] Status top(const Command& command, const PrintLine& print);

}  // namespace ipoib::ibarp
