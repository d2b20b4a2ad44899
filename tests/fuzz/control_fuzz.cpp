// Lines of the control protocol: a request, response or event that parses is the same after it is
// written and parsed again.
#include <array>
#include <string_view>
#include <variant>

#include "control/events.hpp"
#include "control/protocol.hpp"
#include "cost.hpp"
#include "require.hpp"

using namespace ipoib::control;
using ipoib::require;

namespace {

constexpr std::uint64_t kMaxCost = 100'000;

// The first byte of an input: what the rest is. Smaller numbers: a response to that request.
constexpr std::size_t kKinds = 32;
constexpr std::size_t kRequest = 30;
constexpr std::size_t kEvent = 31;

/// One of each kind. A new one comes last, so that the corpus stays as it is.
const auto& requests() {
  static const std::array all{Request(InterfaceRequest(ListRequest{})),
                              Request(InterfaceRequest(GetRequest{})),
                              Request(InterfaceRequest(SetRequest{})),
                              Request(InterfaceRequest(PinRequest{})),
                              Request(InterfaceRequest(FlushRequest{})),
                              Request(InterfaceRequest(StatsRequest{})),
                              Request(InterfaceRequest(InfoRequest{})),
                              Request(MembersRequest{}),
                              Request(LogRequest{}),
                              Request(TraceRequest{}),
                              Request(AddInterfaceRequest{}),
                              Request(InterfaceRequest(HistogramsRequest{})),
                              Request(InterfaceRequest(StationsRequest{})),
                              Request(InterfaceRequest(SubscribeRequest{})),
                              Request(InterfaceRequest(DeleteRequest{})),
                              Request(DeleteInterfaceRequest{}),
                              Request(InterfaceRequest(FailoverRequest{})),
                              Request(InterfaceRequest(ResolveRequest{})),
                              Request(CaptureRequest{})};
  static_assert(all.size() ==
                std::variant_size_v<InterfaceRequest> + std::variant_size_v<Request> - 1);
  return all;
}

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
  if (size == 0) return 0;
  const ipoib::CostLimit limit(kMaxCost);
  const std::string_view line(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t kind = data[0] % kKinds;
  if (kind == kRequest) fuzz_request(line);
  if (kind == kEvent) fuzz_event(line);
  if (kind < requests().size()) fuzz_response(requests()[kind], line);
  return 0;
}
