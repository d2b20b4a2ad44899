// The parts of the page of `softib view`, which the build takes from page/.
#pragma once

#include <string_view>

namespace softib::cli::page {

[[nodiscard]] std::string_view index_html();
[[nodiscard]] std::string_view view_css();
[[nodiscard]] std::string_view view_js();

}  // namespace softib::cli::page
