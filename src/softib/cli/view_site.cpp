#include "softib/cli/view_site.hpp"

#include <array>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <exception>

#include "program/limits.hpp"
#include "softib/cli/view_page.hpp"

namespace softib::cli {

namespace {

struct Part {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};
const std::array kParts{Part{"", "text/html; charset=utf-8", page::index_html()},
                        Part{"view.css", "text/css; charset=utf-8", page::view_css()},
                        Part{"view.js", "text/javascript; charset=utf-8", page::view_js()}};

ViewAnswer refusal(unsigned status, std::string_view why) {
  return {.status = status, .body = std::string(why) + '\n'};
}

ViewAnswer json_answer(const ipoib::Result<std::string>& text) {
  if (!text) {
    const unsigned status = text.error().code == ENOENT ? 404 : 500;
    return refusal(status, text.error().message);
  }
  return {.type = "application/json", .body = *text};
}

ipoib::Result<std::string> serialized(const ipoib::Result<boost::json::object>& object) {
  if (!object) return object.error();
  return boost::json::serialize(*object);
}

/// The value of the only parameter of a query. Names and numbers need no decoding.
std::string_view value_of(std::string_view query, std::string_view key) {
  const bool has_key = query.starts_with(key) && query.substr(key.size()).starts_with('=');
  return has_key ? query.substr(key.size() + 1) : std::string_view();
}

}  // namespace

std::string ViewSite::url() const {
  return "http://127.0.0.1:" + std::to_string(port_) + '/' + token_ + '/';
}

ViewAnswer ViewSite::answer(const ViewRequest& request) {
  const auto port = ':' + std::to_string(port_);
  if (request.host != "127.0.0.1" + port && request.host != "localhost" + port) {
    // Without the token: a page of another host, whose name leads here, could read this.
    return refusal(403, "this server is known as 127.0.0.1" + port + " only");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return refusal(405, "only GET and HEAD are allowed");
  }
  const auto prefix = '/' + token_ + '/';
  if (!request.target.starts_with(prefix)) {
    return refusal(404, "not found; use the address that softib view has printed");
  }
  const auto rest = request.target.substr(prefix.size());
  const auto mark = rest.find('?');
  const bool has_query = mark != std::string_view::npos;
  try {
    return answer_to_path(rest.substr(0, mark),
                          has_query ? rest.substr(mark + 1) : std::string_view());
  } catch (const std::exception& error) {
    return refusal(500, ipoib::program::text_of(error));
  }
}

ViewAnswer ViewSite::answer_to_path(std::string_view path, std::string_view query) {
  for (const auto& part : kParts) {
    if (part.path == path) return {.type = part.type, .body = std::string(part.text)};
  }
  if (path == "subnet.json") return json_answer(data_.subnet());
  if (path == "layout.json") return json_answer(serialized(data_.layout()));
  if (path == "switch.json") {
    return json_answer(serialized(data_.switch_tables(value_of(query, "name"))));
  }
  if (path == "group.json") {
    return json_answer(serialized(data_.group_exits(value_of(query, "mlid"))));
  }
  return refusal(404, "not found");
}

}  // namespace softib::cli
