// Serves metrics over HTTP, for Prometheus.
#pragma once

#include <functional>
#include <string>

#include "ipoib/result.hpp"
#include "metrics/families.hpp"
#include "metrics/listen_address.hpp"

namespace ipoib::metrics {

/// Serves http://ADDRESS/metrics until SIGINT or SIGTERM. Unless `password` is empty, a client
/// needs it (HTTP Basic, RFC 7617), with any user name. `collect` is called for each request, on
/// other threads, perhaps on two at a time. `ready` is called with the URL once clients may
/// connect. Requires that the process has no other thread. Returns why it cannot listen.
[[nodiscard]] Result<void> serve(const ListenAddress& address, const std::string& password,
                                 std::function<Families()> collect,
                                 const std::function<void(const std::string& url)>& ready);

}  // namespace ipoib::metrics
