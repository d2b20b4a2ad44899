#include "softib/core/qp_errors.hpp"

#include <algorithm>

namespace softib {

using ipoib::Qpn;

namespace {

Qpn qpn_of(std::uint64_t word, unsigned shift) {
  return Qpn(static_cast<std::uint32_t>(word >> shift) & ipoib::kMulticastQpn.value());
}

}  // namespace

std::vector<Qpn> QpErrors::since(const QpErrors& before) const {
  const auto added = static_cast<std::uint16_t>(count_ - before.count_);
  const auto kept = std::min<std::uint16_t>(added, kKept);
  std::vector<Qpn> qpns;
  for (auto left = kept; left > 0; --left) {
    qpns.push_back(last_[static_cast<std::uint16_t>(count_ - left) % kKept]);
  }
  return qpns;
}

///   word 0: | QPN 1 24 | QPN 0 24 | count 16 |    word 1: | QPN 3 24 | QPN 2 24 |
QpErrors::Words QpErrors::words() const {
  return {std::uint64_t{count_} | std::uint64_t{last_[0].value()} << 16 |
              std::uint64_t{last_[1].value()} << 40,
          std::uint64_t{last_[2].value()} | std::uint64_t{last_[3].value()} << 24};
}

QpErrors QpErrors::of_words(const Words& words) {
  QpErrors errors;
  errors.count_ = static_cast<std::uint16_t>(words[0]);
  errors.last_ = {qpn_of(words[0], 16), qpn_of(words[0], 40), qpn_of(words[1], 0),
                  qpn_of(words[1], 24)};
  return errors;
}

}  // namespace softib
