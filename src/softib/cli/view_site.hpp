// What `softib view` answers to a request: the page, and the subnet as JSON. No sockets.
//
//   /TOKEN/                        the page; view.css and view.js beside it
//   /TOKEN/subnet.json             as softib show --json
//   /TOKEN/layout.json             {"width", "height", "switch_width", "switches": {NAME: [x, y]},
//                                  "hcas": {NAME: [x, y, angle of the name in degrees]}}
//   /TOKEN/switch.json?name=NAME   {"name", "lft": [[LID, port]], "mft": [{"mlid", "ports"}]}
//   /TOKEN/group.json?mlid=0xc000  {"mlid", "exits": [{"switch", "ports"}]}
//
// The token is random: other users of the machine can connect to the port, but do not know it.
// Requests whose Host is another name are refused, so that no web page reads the subnet by a name
// of its own that leads to this machine (DNS rebinding).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "softib/cli/view_data.hpp"

namespace softib::cli {

/// The parts of a request that matter.
struct ViewRequest {
  std::string_view method;
  std::string_view target;
  std::string_view host;  ///< of the header Host
};

struct ViewAnswer {
  unsigned status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
};

/// What the page may load: its own parts, and nothing from elsewhere.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Owns the token, and knows the port. For one thread.
class ViewSite {
 public:
  /// `data` must outlive it.
  ViewSite(ViewData& data, std::string token, std::uint16_t port)
      : data_(data), token_(std::move(token)), port_(port) {}
  /// 200; 403 for another host; 404; 405 for a method that is not GET or HEAD; 500 and why if there
  /// are no data.
  [[nodiscard]] ViewAnswer answer(const ViewRequest& request);
  [[nodiscard]] std::string url() const;

 private:
  [[nodiscard]] ViewAnswer answer_to_path(std::string_view path, std::string_view query);

  ViewData& data_;
  const std::string token_;
  const std::uint16_t port_;
};

}  // namespace softib::cli
