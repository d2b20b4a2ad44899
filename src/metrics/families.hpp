// Metrics of a program at one moment, for Prometheus.
//
// Names follow https://prometheus.io/docs/practices/naming/: a prefix, base units (seconds, bytes),
// and "_total" for counters.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ipoib::metrics {

/// Labels, each with a name and a value.
using Labels = std::vector<prometheus::ClientMetric::Label>;
/// Returns the labels and one more.
[[nodiscard]] Labels with(Labels labels, const std::string& name, const std::string& value);

class Families {
 public:
  /// Each adds a sample to the family of that name, and the family if there is none yet. The labels
  /// of the samples of a family are different. `help` and kind are the same in each call.
  void counter(const std::string& name, const std::string& help, const Labels& labels,
               std::uint64_t value);
  /// Adds a counter of dropped packets, which the manual page `manual` calls "drop_REASON"; the
  /// reason is a label.
  void drops(const std::string& name, const std::string& manual, const Labels& labels,
             std::string_view counter, std::uint64_t value);
  void gauge(const std::string& name, const std::string& help, const Labels& labels, double value);
  /// `bounds_ns` are upper bounds, inclusive, ascending. `counts` are not cumulative. There is one
  /// more than bounds: the last one counts what is above all of them. The sample is in seconds.
  void histogram(const std::string& name, const std::string& help, const Labels& labels,
                 std::span<const std::uint64_t> bounds_ns, std::span<const std::uint64_t> counts,
                 std::uint64_t sum_ns);
  /// Adds a gauge for each of `states`, which is 1 for the present state and 0 for the others. A
  /// state that is not among them gets a gauge, too.
  void states(const std::string& name, const std::string& help, const Labels& labels,
              std::span<const std::string_view> states, const std::string& present);

  [[nodiscard]] const std::vector<prometheus::MetricFamily>& all() const { return families_; }
  /// The text format of Prometheus, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] prometheus::ClientMetric& add(const std::string& name, const std::string& help,
                                              prometheus::MetricType type, const Labels& labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace ipoib::metrics
