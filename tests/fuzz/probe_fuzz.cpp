// The probe of a device's checksum offload, which parses what anybody may have sent to the queue
// pair. It passes only if each probe has returned with valid checksums. An input is a list of
// datagrams: a byte that says how each is made, and its arguments.
#include "cost.hpp"
#include "offload/segmenter.hpp"
#include "require.hpp"
#include "verbs/checksum_probe.hpp"
#include "wire/encapsulation.hpp"

using namespace ipoib;
using verbs::ChecksumProbe;

namespace {

constexpr std::size_t kMaxSteps = 256;
constexpr std::size_t kSlot = 256;
constexpr std::uint64_t kMaxCost = 4000;
constexpr std::size_t kProbes = verbs::kProbeVersions.size() * verbs::kProbeSegments;

using Bytes = std::vector<std::uint8_t>;

/// The segments that a device would receive from itself.
std::vector<Bytes> make_probes() {
  std::vector<Bytes> out;
  FramePool pool(1, kSlot);
  for (const std::uint8_t version : verbs::kProbeVersions) {
    Frame frame = pool.take();
    verbs::write_probe(frame, version);
    for (auto segmenter = offload::make_segmenter(frame, wire::kEncapsulationSize);
         !segmenter.done();) {
      Bytes segment(segmenter.header_size());
      const ConstBytes payload = segmenter.next(segment.data());
      segment.insert(segment.end(), payload.begin(), payload.end());
      out.push_back(std::move(segment));
    }
  }
  require(out.size() == kProbes);
  return out;
}

void take(ChecksumProbe& probe, const Bytes& datagram, std::size_t& taken, bool& all_valid) {
  const CostLimit limit(kMaxCost);
  const bool waited = probe.is_waiting();
  if (!probe.take(datagram)) return;
  require(waited && verbs::is_probe(datagram));
  ++taken;
  all_valid = all_valid && verbs::has_valid_checksums(datagram);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kValid = make_probes();
  ByteReader in({data, size});
  ChecksumProbe probe;
  std::size_t taken = 0;
  bool all_valid = true;
  for (std::size_t step = 0; step < kMaxSteps && in.left() > 0; ++step) {
    const std::uint8_t how = in.u8();
    Bytes datagram = kValid[how % kProbes];
    switch (how / kProbes % 4) {
      case 0:
        break;
      case 1: {  // with some bytes changed
        const std::size_t at = in.u8();
        const auto changes = in.take(std::min<std::size_t>(in.left(), how / 16));
        for (std::size_t i = 0; i < changes.size() && at + i < datagram.size(); ++i) {
          datagram[at + i] = changes[i];
        }
        break;
      }
      case 2: {  // shorter, or in front of other bytes
        datagram.resize(std::min<std::size_t>(in.u8(), datagram.size()));
        const auto more = in.take(std::min<std::size_t>(in.left(), how / 16));
        datagram.insert(datagram.end(), more.begin(), more.end());
        break;
      }
      case 3:
        if (!probe.is_open()) continue;
        probe.begin();
        taken = 0;
        continue;
    }
    if (datagram.size() < wire::kEncapsulationSize) continue;  // the queue pair drops these
    take(probe, datagram, taken, all_valid);
  }
  require(!probe.passed() || (taken >= kProbes && all_valid));
  require(!(probe.passed() && probe.failed()));
  return 0;
}
