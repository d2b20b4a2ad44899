// The limit of open descriptors.
#pragma once

namespace ipoib {

/// Raises the soft limit of open descriptors (RLIMIT_NOFILE) to the hard one: programs with one
/// descriptor for each peer need more than the usual 1024. Not for a process that executes other
/// programs, which may use select(2).
void raise_descriptor_limit();

}  // namespace ipoib
