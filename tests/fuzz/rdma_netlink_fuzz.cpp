// What a program sends by a socket of the RDMA family of netlink, with any content: each answer is
// a whole message, each request has one, and a dump ends. Also requests for objects and their
// answers, as any process may send them.
#include <linux/netlink.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cost.hpp"
#include "require.hpp"
#include "softib/view/rdma_netlink.hpp"

namespace {

using softib::HcaPorts;
using softib::view::ShownHca;

constexpr std::uint64_t kMaxCost = 2'000'000;
constexpr std::uint32_t kPortId = 7;

std::vector<ShownHca> make_hcas() {
  std::vector<ShownHca> hcas;
  for (const std::uint8_t ports : {std::uint8_t{1}, std::uint8_t{2}}) {
    softib::PortAttributes port;
    port.number = port.hca_ports = ports;
    hcas.push_back({.number = ports, .node = {}, .ports = HcaPorts(port)});
  }
  return hcas;
}

/// Each HCA has two processes with two objects of each kind.
class SomeResources final : public softib::view::ResourceSource {
 public:
  std::vector<Owned<softib::ObjectStatus>> objects(const ShownHca& /*hca*/,
                                                   softib::ObjectKind /*kind*/) override {
    return {{{1, 0}, {.number = 0, .type = 2, .port = 1}},
            {{1, 0}, {.number = 1, .type = 4}},
            {{2, 1}, {.number = 0, .type = 10, .port = 2}},
            {{2, 1}, {.number = 1, .type = 0xff}}};
  }
  std::vector<Owned<softib::rdma_cm::IdStatus>> ids(const ShownHca& /*hca*/) override {
    return {{{1, 0}, {}}, {{2, 1}, {}}};
  }
};

nlmsghdr header_of(ipoib::ConstBytes bytes) {
  nlmsghdr header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

/// The requests in a datagram, as far as they are whole.
std::size_t count_requests(ipoib::ConstBytes sent) {
  std::size_t count = 0;
  while (sent.size() >= sizeof(nlmsghdr)) {
    const auto header = header_of(sent);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > sent.size()) break;
    const bool is_request = (header.nlmsg_flags & NLM_F_REQUEST) != 0;
    count += is_request && header.nlmsg_type >= NLMSG_MIN_TYPE ? 1U : 0U;
    const std::size_t step = (header.nlmsg_len + std::size_t{3}) / 4 * 4;
    sent = sent.subspan(std::min(step, sent.size()));
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  static const auto hcas = make_hcas();
  const ipoib::ConstBytes sent(data, size);
  if (const auto request = softib::ObjectRequest::parse(sent)) {
    ipoib::require(std::ranges::equal(request->bytes(), sent));
  }
  if (const auto page = softib::ObjectPage::parse(sent)) {
    ipoib::require(std::ranges::equal(page->bytes(), sent));
  }
  SomeResources resources;
  const auto answers = softib::view::netlink_answers(sent, kPortId, hcas, resources);
  bool is_dump = false;
  for (const auto& answer : answers) {
    ipoib::require(answer.size() >= sizeof(nlmsghdr));
    const auto header = header_of(answer);
    ipoib::require(header.nlmsg_len == answer.size() && header.nlmsg_pid == kPortId);
    is_dump = (header.nlmsg_flags & NLM_F_MULTI) != 0 && header.nlmsg_type != NLMSG_DONE;
  }
  ipoib::require(!is_dump);
  const auto requests = count_requests(sent);
  ipoib::require(answers.size() >= requests && answers.size() <= requests * 4);
  return 0;
}
