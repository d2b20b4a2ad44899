// What reaches `softib view`: requests, and files of ibnetdiscover and perfquery. Without the token
// and the name of the host there is no answer but a refusal, which does not tell the token.
#include <boost/json/array.hpp>
#include <cerrno>
#include <string>
#include <string_view>

#include "cost.hpp"
#include "require.hpp"
#include "softib/cli/real_subnet.hpp"
#include "softib/cli/view_site.hpp"

namespace {

using namespace softib::cli;
using ipoib::require;

constexpr std::uint64_t kMaxCost = 2'000'000;
constexpr std::string_view kToken = "c0ffee";

class NoData final : public ViewData {
 public:
  ipoib::Result<std::string> subnet() override { return std::string("{}"); }
  ipoib::Result<boost::json::object> layout() override { return boost::json::object(); }
  ipoib::Result<boost::json::object> switch_tables(std::string_view name) override {
    return boost::json::object{{"name", name.size()}};
  }
  ipoib::Result<boost::json::object> group_exits(std::string_view /*mlid*/) override {
    return ipoib::Error{ENOENT, "none"};
  }
};

/// The first part of the text before '|', which it removes.
std::string_view next(std::string_view& text) {
  const auto end = text.find('|');
  const auto out = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return out;
}

void try_request(std::string_view text) {
  static NoData data;
  static ViewSite site(data, std::string(kToken), 80);
  const auto method = next(text);
  const auto host = next(text);
  const auto answer = site.answer({method, text, host});
  const bool is_known = text.find(kToken) != std::string_view::npos;
  const bool is_ours = host == "127.0.0.1:80" || host == "localhost:80";
  if (!is_known || !is_ours) {
    require(answer.status == 403 || answer.status == 404 || answer.status == 405);
    require(answer.body.find(kToken) == std::string::npos);
  }
  if (method != "GET" && method != "HEAD") require(answer.status == 403 || answer.status == 405);
}

void try_files(std::string_view text) {
  const auto net = next(text);
  const auto real = real_subnet(net, "x", text);
  if (!real) return;
  require(real->subnet.at("nodes").as_array().size() == real->topology.hcas.size());
  require(real->subnet.at("switches").as_array().size() == real->topology.switches.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  const std::string text(data, data + size);
  try_request(text);
  try_files(text);
  return 0;
}
