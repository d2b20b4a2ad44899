#include "metrics/families.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ipoib::metrics {

namespace {

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

}  // namespace

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels.push_back({name, value});
  return labels;
}

prometheus::ClientMetric& Families::add(const std::string& name, const std::string& help,
                                        prometheus::MetricType type, const Labels& labels) {
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&name](const auto& each) { return each.name == name; });
  if (family == families_.end()) {
    family = families_.insert(families_.end(), prometheus::MetricFamily{name, help, type, {}});
  }
  assert(family->type == type && family->help == help);
  auto& metric = family->metric.emplace_back();
  metric.label = labels;
  return metric;
}

void Families::counter(const std::string& name, const std::string& help, const Labels& labels,
                       std::uint64_t value) {
  add(name, help, prometheus::MetricType::Counter, labels).counter.value =
      static_cast<double>(value);
}

void Families::drops(const std::string& name, const std::string& manual, const Labels& labels,
                     std::string_view counter_name, std::uint64_t value) {
  constexpr std::string_view kPrefix = "drop_";
  if (counter_name.starts_with(kPrefix)) counter_name.remove_prefix(kPrefix.size());
  counter(name, "Dropped packets, by reason: drop_REASON of " + manual + ".",
          with(labels, "reason", std::string(counter_name)), value);
}

void Families::gauge(const std::string& name, const std::string& help, const Labels& labels,
                     double value) {
  add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void Families::histogram(const std::string& name, const std::string& help, const Labels& labels,
                         std::span<const std::uint64_t> bounds_ns,
                         std::span<const std::uint64_t> counts, std::uint64_t sum_ns) {
  assert(counts.size() == bounds_ns.size() + 1);
  auto& out = add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  for (std::size_t i = 0; i < bounds_ns.size(); ++i) {
    out.sample_count += counts[i];
    out.bucket.push_back({out.sample_count, seconds(bounds_ns[i])});
  }
  out.sample_count += counts.back();
  out.sample_sum = seconds(sum_ns);
}

void Families::states(const std::string& name, const std::string& help, const Labels& labels,
                      std::span<const std::string_view> states, const std::string& present) {
  const auto sample = [&](std::string_view state, bool is_present) {
    gauge(name, help, with(labels, "state", std::string(state)), is_present ? 1 : 0);
  };
  for (const auto state : states) sample(state, state == present);
  if (std::find(states.begin(), states.end(), present) == states.end()) sample(present, true);
}

std::string Families::text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace ipoib::metrics
