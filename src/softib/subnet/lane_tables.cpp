#include "softib/subnet/lane_tables.hpp"

#include <cassert>

namespace softib::subnet {

namespace {
constexpr LaneTables::SlToVl kSameNumber{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xe7};
}  // namespace

LaneTables::SlToVl LaneTables::sl_to_vl(unsigned in, unsigned out) const {
  assert(has_port(in) && has_port(out));
  return sl_to_vl_.empty() ? kSameNumber : sl_to_vl_[index(in, out)];
}

void LaneTables::set_sl_to_vl(unsigned in, unsigned out, const SlToVl& to) {
  assert(has_port(in) && has_port(out));
  if (sl_to_vl_.empty()) sl_to_vl_.resize(index(ports_, ports_) + 1, kSameNumber);
  sl_to_vl_[index(in, out)] = to;
}

LaneTables::Arbitration LaneTables::arbitration(unsigned port, unsigned block) const {
  assert(has_port(port) && block < kArbitrationBlocks);
  return arbitration_.empty() ? Arbitration{} : arbitration_[port * kArbitrationBlocks + block];
}

void LaneTables::set_arbitration(unsigned port, unsigned block, const Arbitration& to) {
  assert(has_port(port) && block < kArbitrationBlocks);
  if (arbitration_.empty()) arbitration_.resize((ports_ + std::size_t{1}) * kArbitrationBlocks);
  arbitration_[port * kArbitrationBlocks + block] = to;
}

}  // namespace softib::subnet
