// Lines of the control protocol: a request, response or event that parses is the same after it is
// written and parsed again.
#include <string_view>
#include <vector>

#include "control/events.hpp"
#include "control/protocol.hpp"
#include "cost.hpp"
#include "require.hpp"

using namespace ipoib::control;
using ipoib::require;

namespace {

constexpr std::uint64_t kMaxCost = 100'000;

std::string_view without_newline(const std::string& line) {
  require(!line.empty() && line.find('\n') == line.size() - 1);
  return std::string_view(line).substr(0, line.size() - 1);
}

void fuzz_request(std::string_view line) {
  const auto request = parse_request(line);
  if (request.has_error()) {
    require(request.error().code != 0 && !request.error().message.empty());
    return;
  }
  const auto again = parse_request(without_newline(emit(*request)));
  require(again.has_value() && *again == *request);
}

void fuzz_response(const Request& request, std::string_view line) {
  const Response response = parse_response(request, line);
  const Response again = parse_response(request, without_newline(emit(response)));
  require(again.has_value() == response.has_value());
  if (response.has_value()) require(*again == *response);
}

void fuzz_event(std::string_view line) {
  const auto event = parse_event(line);
  if (event.has_error()) return;
  const auto again = parse_event(without_newline(emit(*event)));
  require(again.has_value() && *again == *event);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Request> kRequests{InterfaceRequest(ListRequest{}),
                                              InterfaceRequest(GetRequest{}),
                                              InterfaceRequest(SetRequest{}),
                                              InterfaceRequest(PinRequest{}),
                                              InterfaceRequest(FlushRequest{}),
                                              InterfaceRequest(StatsRequest{}),
                                              InterfaceRequest(InfoRequest{}),
                                              MembersRequest{},
                                              LogRequest{},
                                              TraceRequest{},
                                              AddInterfaceRequest{},
                                              InterfaceRequest(HistogramsRequest{})};
  if (size == 0) return 0;
  const ipoib::CostLimit limit(kMaxCost);
  const std::string_view line(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t kind = data[0] % (kRequests.size() + 1);
  if (kind == kRequests.size()) {
    fuzz_request(line);
    fuzz_event(line);
  } else {
    fuzz_response(kRequests[kind], line);
  }
  return 0;
}
