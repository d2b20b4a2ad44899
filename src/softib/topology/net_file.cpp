#include "softib/topology/net_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "softib/core/name.hpp"
#include "softib/topology/check.hpp"
#include "softib/topology/net_line.hpp"
#include "softib/topology/net_nodes.hpp"
#include "softib/topology/net_writer.hpp"
#include "softib/topology/node_names.hpp"

namespace softib::topology {

namespace {

using ipoib::Error;
using ipoib::Result;

constexpr unsigned kMaxEnabledWidth = 31;          // all bits of LinkWidthEnabled
constexpr unsigned kMaxEnabledSpeed = 7;           // SDR to QDR
constexpr unsigned kMaxEnabledExtendedSpeed = 15;  // FDR to NDR
constexpr std::uint8_t kQdr = 4;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// What ibsim takes a port to permit that runs at this width, such as 4 of 4xQDR.
std::optional<std::uint8_t> enabled_width(unsigned lanes) {
  switch (lanes) {
    case 1:
      return 1;
    case 2:
      return 16;
    case 4:
      return 1 | 2;
    case 8:
      return 4;
    case 12:
      return 1 | 2 | 8;
    default:
      return std::nullopt;
  }
}

struct SpeedName {
  std::string_view name;
  std::uint8_t speed;     ///< bits of LinkSpeedEnabled
  std::uint8_t extended;  ///< bits of LinkSpeedExtEnabled
};
/// FDR10 is a rate of one vendor, which is QDR to others.
constexpr std::array kSpeedNames{
    SpeedName{"SDR", 1, 0},   SpeedName{"DDR", 3, 0},  SpeedName{"QDR", 7, 0},
    SpeedName{"FDR10", 7, 0}, SpeedName{"FDR", 7, 1},  SpeedName{"EDR", 7, 3},
    SpeedName{"HDR", 7, 7},   SpeedName{"NDR", 7, 15},
};

/// The GUIDs of nodes of one kind: a base that the file gives, counted up node by node.
struct GuidSequence {
  std::uint64_t base;  ///< what "+NUMBER" is relative to
  std::uint64_t next = 0;
  bool is_given = false;
  bool is_for_next_node = false;  ///< given since the last node
};

/// Reads lines into records. Owns the state that a line leaves to the next ones.
class NetReader {
 public:
  explicit NetReader(const ReadInclude& read_include) : read_include_(read_include) {}

  Result<NetFile> run(std::string_view text, const std::string& name) {
    if (!read(text, name, 0)) return *error_;
    return link_records(std::move(records_));
  }

 private:
  using Parse = bool (NetReader::*)(NetLine&);
  struct Keyword {
    std::string_view word;
    Parse parse;
  };

  // The functions that return bool return false after they have set the error.

  bool fail(const Position& at, const std::string& why) {
    error_ = Error{EINVAL, records_.located(at, why)};
    return false;
  }
  bool fail(const NetLine& line, const std::string& why) { return fail(here(line), why); }
  [[nodiscard]] Position here(const NetLine& line) const {
    return {file_, line_number_, line.column()};
  }

  bool read(std::string_view text, const std::string& name, std::size_t depth) {
    const auto outer = std::pair(file_, line_number_);
    file_ = records_.files.size();
    records_.files.push_back(name);
    line_number_ = 0;
    depth_ = depth;
    bytes_ += text.size();
    if (bytes_ > kMaxNetBytes) {
      error_ = Error{EFBIG, name + ": more than " + std::to_string(kMaxNetBytes >> 20) +
                                " MiB with what it includes"};
      return false;
    }
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    while (!text.empty()) {
      ++line_number_;
      const auto end = std::min(text.find('\n'), text.size());
      auto line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.size() > kMaxNetLine) {
        return fail({file_, line_number_, kMaxNetLine + 1},
                    "the line is longer than " + std::to_string(kMaxNetLine) + " bytes");
      }
      NetLine parts(line);
      if (!parse(parts)) return false;
    }
    std::tie(file_, line_number_) = outer;
    depth_ = depth == 0 ? 0 : depth - 1;
    return true;
  }

  bool parse(NetLine& line) {
    if (line.rest().starts_with(kIdsAreNames)) ids_are_names_ = true;
    line.skip_blanks();
    if (line.is_at_end() || line.next() == '#') return true;
    if (line.next() == '[' || line.next() == '@') return parse_port_line(line);
    static constexpr std::array kKeywords{
        Keyword{"Switch", &NetReader::parse_switch},
        Keyword{"Hca", &NetReader::parse_hca},
        Keyword{"Ca", &NetReader::parse_hca},
        Keyword{"Rt", &NetReader::parse_router},
        Keyword{"switchguid", &NetReader::parse_switch_guid},
        Keyword{"switchguids", &NetReader::parse_switch_guid},
        Keyword{"hcaguid", &NetReader::parse_hca_guid},
        Keyword{"hcaguids", &NetReader::parse_hca_guid},
        Keyword{"caguid", &NetReader::parse_hca_guid},
        Keyword{"caguids", &NetReader::parse_hca_guid},
        Keyword{"rtguid", &NetReader::parse_router_guid},
        Keyword{"rtguids", &NetReader::parse_router_guid},
        Keyword{"vendid", &NetReader::parse_ignored},
        Keyword{"devid", &NetReader::parse_ignored},
        Keyword{"sysimgguid", &NetReader::parse_ignored},
        Keyword{"pdebug", &NetReader::parse_ignored},
        Keyword{"width", &NetReader::parse_width},
        Keyword{"speed", &NetReader::parse_speed},
        Keyword{"extspeed", &NetReader::parse_extended_speed},
        Keyword{"module", &NetReader::parse_module},
        Keyword{"include", &NetReader::parse_include},
        Keyword{"do", &NetReader::parse_do},
    };
    current_.reset();
    NetLine behind = line;
    const auto word = behind.letters();
    const auto keyword = std::ranges::find(kKeywords, word, &Keyword::word);
    if (keyword == kKeywords.end()) return parse_unknown(line);
    return (this->*keyword->parse)(behind);
  }

  /// A node of an unknown kind, whose ports and cables are skipped, or a line that means nothing.
  bool parse_unknown(NetLine& line) {
    const Position at = here(line);
    const std::string what = shown(line.word());
    line.skip_blanks();
    const auto ports = line.digits();
    line.skip_blanks();
    const auto id = line.quoted();
    if (!ports || !id) {
      records_.remark(at, "a line that begins with " + what + " is skipped");
      return true;
    }
    records_.remark(at, "the node " + shown(*id) + " of the unknown kind " + what + " is skipped");
    return add_skipped(at, *id);
  }

  bool add_skipped(const Position& at, std::string_view id) {
    NetNode node;
    node.at = at;
    node.id = with_module(id);
    if (!records_.by_id.try_emplace(node.id, records_.nodes.size()).second) {
      return fail(at, "another node has the ID " + shown(id));
    }
    current_ = records_.nodes.size();
    records_.nodes.push_back(std::move(node));
    return true;
  }

  bool parse_switch(NetLine& line) {
    return parse_node(line, NetNode::Kind::switch_node, switch_guids_);
  }
  bool parse_hca(NetLine& line) { return parse_node(line, NetNode::Kind::hca, hca_guids_); }

  bool parse_router(NetLine& line) {
    const auto header = parse_header(line);
    if (!header) return false;
    records_.remark(header->at, "the router " + shown(header->id) + " is skipped");
    return add_skipped(header->at, header->id);
  }

  struct Header {
    Position at;  ///< of the ID
    unsigned ports = 0;
    std::string_view id;
  };

  std::optional<Header> parse_header(NetLine& line) {
    line.skip_blanks();
    const Position ports_at = here(line);
    const auto ports = line.digits();
    line.skip_blanks();
    const Position id_at = here(line);
    if (!ports || *ports == 0) {
      (void)fail(ports_at, "expected the number of ports");
      return std::nullopt;
    }
    if (*ports > kMaxSwitchPorts) {
      (void)fail(ports_at, std::to_string(*ports) + " ports are too many; at most " +
                               std::to_string(kMaxSwitchPorts));
      return std::nullopt;
    }
    const auto id = line.quoted();
    if (!id || id->empty()) {
      (void)fail(id_at, "expected the ID of the node in double quotes");
      return std::nullopt;
    }
    if (id->find_first_of("#@") != std::string_view::npos) {
      (void)fail(id_at, "an ID cannot have '#' or '@'");
      return std::nullopt;
    }
    return Header{id_at, *ports, *id};
  }

  bool parse_node(NetLine& line, NetNode::Kind kind, GuidSequence& guids) {
    const auto header = parse_header(line);
    if (!header) return false;
    const bool is_switch = kind == NetNode::Kind::switch_node;
    std::size_t& count = is_switch ? switches_ : hcas_;
    const std::size_t most = is_switch ? kMaxSwitches : kMaxHcas;
    if (count == most) {
      return fail(header->at,
                  "more than " + std::to_string(most) + (is_switch ? " switches" : " HCAs"));
    }
    ++count;
    NetNode node;
    node.kind = kind;
    node.at = header->at;
    node.id = with_module(header->id);
    const auto id_guid = guid_of_node_id(header->id);
    node.id_is_name = is_valid_name(header->id) && module_.empty() && (ids_are_names_ || !id_guid);
    node.description = description_in(line);
    node.guid = take_guid(guids, ids_are_names_ ? std::nullopt : id_guid,
                          is_switch ? 1 : header->ports + 1);
    node.ports = header->ports;
    node.rates = rates_;
    if (!records_.by_id.try_emplace(node.id, records_.nodes.size()).second) {
      return fail(header->at, "another node has the ID " + shown(header->id));
    }
    current_ = records_.nodes.size();
    records_.nodes.push_back(std::move(node));
    return true;
  }

  /// What follows '#': a text in quotes, or all up to what ibnetdiscover writes behind it.
  static std::string description_in(NetLine line) {
    if (!line.until('#')) return {};
    line.skip_blanks();
    if (const auto quoted = line.quoted()) return clean_description(*quoted);
    auto text = line.rest();
    for (const std::string_view behind : {"enhanced port ", "base port ", "lid ", "lmc "}) {
      for (auto at = text.find(behind); at != std::string_view::npos;
           at = text.find(behind, at + 1)) {
        if (at == 0 || text[at - 1] == ' ') {
          text = text.substr(0, at);
          break;
        }
      }
    }
    const auto end = text.find_last_not_of(" \t");
    return clean_description(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
  }

  /// The GUID of the next node, for which `count` numbers are reserved: the one that the file gives
  /// it, else that of its ID, else the next of the sequence. 0 is not given.
  static Guid take_guid(GuidSequence& guids, const std::optional<Guid>& of_id,
                        std::uint64_t count) {
    const bool is_for_this_node = std::exchange(guids.is_for_next_node, false);
    if (!is_for_this_node && of_id) return *of_id;
    if (!guids.is_given || guids.next == 0) return Guid();
    return Guid(std::exchange(guids.next, guids.next + count));
  }

  [[nodiscard]] std::string with_module(std::string_view id) const {
    return module_.empty() ? std::string(id) : module_ + "#" + std::string(id);
  }

  bool parse_switch_guid(NetLine& line) { return parse_guid_base(line, switch_guids_); }
  bool parse_hca_guid(NetLine& line) { return parse_guid_base(line, hca_guids_); }
  bool parse_router_guid(NetLine& line) {
    GuidSequence unused{0};
    return parse_guid_base(line, unused);
  }

  /// What follows '=': all up to a blank, a parenthesis or a comment.
  static std::string_view value_in(NetLine& line) {
    line.skip_blanks();
    const auto rest = line.rest();
    return rest.substr(0, rest.find_first_of(" \t(#"));
  }

  bool parse_guid_base(NetLine& line, GuidSequence& guids) {
    line.skip_blanks();
    const bool is_relative = line.next() == '+';
    if (!line.eat('=') && !line.eat('+')) return fail(line, "expected '=' or '+'");
    const auto value = parse_guid(value_in(line));
    if (!value) return fail(line, "expected a GUID, such as 0x0002c90200000001");
    if (!is_relative) guids.base = value->value();
    guids.next = is_relative ? guids.base + value->value() : guids.base;
    guids.is_given = guids.is_for_next_node = true;
    return true;
  }

  bool parse_ignored(NetLine& line) {
    line.skip_blanks();
    return line.next() == '=' || fail(line, "expected '='");
  }

  bool parse_default(NetLine& line, unsigned least, unsigned most, std::uint8_t& out) {
    line.skip_blanks();
    if (!line.eat('=')) return fail(line, "expected '='");
    const auto value = parse_c_number(value_in(line));
    if (!value || *value < least || *value > most) {
      return fail(
          line, "expected a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    out = static_cast<std::uint8_t>(*value);
    return true;
  }
  bool parse_width(NetLine& line) { return parse_default(line, 1, kMaxEnabledWidth, rates_.width); }
  bool parse_speed(NetLine& line) { return parse_default(line, 1, kMaxEnabledSpeed, rates_.speed); }
  bool parse_extended_speed(NetLine& line) {
    return parse_default(line, 0, kMaxEnabledExtendedSpeed, rates_.extended_speed);
  }

  bool parse_module(NetLine& line) {
    line.skip_blanks();
    if (!line.eat('=')) return fail(line, "expected '='");
    line.skip_blanks();
    const auto name = line.quoted();
    if (!name || name->find_first_of("#@") != std::string_view::npos) {
      return fail(line, "expected the name of a module in double quotes, without '#' and '@'");
    }
    module_ = *name;
    return true;
  }

  bool parse_do(NetLine& line) {
    records_.remark(here(line), "\"do\" is skipped: there is no console of ibsim");
    return true;
  }

  bool parse_include(NetLine& line) {
    line.skip_blanks();
    const Position at = here(line);
    const auto path = line.quoted();
    if (!path || path->empty()) return fail(at, "expected the name of a file in double quotes");
    if (depth_ == kMaxIncludeDepth) {
      return fail(
          at, "files include each other more than " + std::to_string(kMaxIncludeDepth) + " deep");
    }
    if (++includes_ > kMaxIncludes) {
      return fail(at, "more than " + std::to_string(kMaxIncludes) + " files are included");
    }
    if (!read_include_) return fail(at, "no file can be included here");
    const auto file = read_include_(records_.files[file_], std::string(*path));
    if (!file) {
      error_ = Error{file.error().code, records_.located(at, file.error().message)};
      return false;
    }
    const bool done = read(file->text, file->name, depth_ + 1);
    current_.reset();
    return done;
  }

  /// [PORT](GUID) "NODE"[PORT] OPTIONS # COMMENT, or @[PORT] "ALIAS" OPTIONS
  bool parse_port_line(NetLine& line) {
    const Position begin = here(line);
    if (!current_) return fail(begin, "a port outside of a node");
    NetNode& node = records_.nodes[*current_];
    if (node.kind == NetNode::Kind::skipped) return true;
    const bool is_alias = line.eat('@');
    if (!line.eat('[')) return fail(line, "expected '['");
    const Position port_at = here(line);
    const auto port = line.digits();
    if (!port || *port < 1 || *port > node.ports) {
      return fail(port_at, "expected a port from 1 to " + std::to_string(node.ports));
    }
    if (!line.eat(']')) return fail(line, "expected ']'");
    const auto guid = parse_guid_behind(line);
    if (guid && node.kind == NetNode::Kind::hca && *port <= kMaxHcaPorts) {
      node.port_guids[*port - 1] = *guid;
    }
    line.skip_blanks();
    const Position name_at = here(line);
    const auto name = line.quoted();
    if (!name || name->empty()) {
      return fail(name_at, is_alias ? "expected an alias in double quotes"
                                    : "expected the ID of a node in double quotes");
    }
    NetPort& entry =
        node.port_lines.try_emplace(*port, NetPort{{}, false, rates_of_port(node)}).first->second;
    const bool named = is_alias ? add_alias(name_at, *name, *port, entry)
                                : add_far_end(line, name_at, *name, entry);
    return named && parse_options(line, entry.rates);
  }

  static EnabledRates rates_of_port(const NetNode& node) { return node.rates; }

  /// Skips the [...] of chassis ports, and returns the GUID in parentheses if it is there.
  static std::optional<Guid> parse_guid_behind(NetLine& line) {
    while (line.eat('[')) {
      if (!line.until(']')) return std::nullopt;
    }
    if (!line.eat('(')) return std::nullopt;
    const auto text = line.until(')');
    if (!text) return std::nullopt;
    // Without 0x, also if they are digits only.
    const bool is_bare = text->find_first_not_of("0123456789") == std::string_view::npos;
    return parse_guid(is_bare ? "0x" + std::string(*text) : std::string(*text));
  }

  bool add_alias(const Position& at, std::string_view alias, unsigned port, NetPort& entry) {
    if (alias.find_first_of("#@") != std::string_view::npos) {
      return fail(at, "an alias cannot have '#' or '@'");
    }
    const auto place = std::pair(*current_, port);
    if (!records_.aliases.try_emplace(module_ + "@" + std::string(alias), place).second) {
      return fail(at, "another port has the alias " + shown(alias));
    }
    if (std::exchange(entry.has_alias, true)) return fail(at, "the port has another alias");
    return true;
  }

  bool add_far_end(NetLine& line, const Position& at, std::string_view name, NetPort& entry) {
    if (entry.far_end) return fail(at, "the port has another cable");
    FarEnd far{at, {}, name.find('@') != std::string_view::npos, 1};
    if (far.is_alias) {
      far.node = (name[0] == '@' ? module_ : std::string()) + std::string(name);
    } else {
      far.node = name.find('#') == std::string_view::npos ? with_module(name) : std::string(name);
    }
    line.skip_blanks();
    if (line.eat('[')) {
      const Position port_at = here(line);
      const auto port = line.digits();
      if (!port || *port == 0) return fail(port_at, "expected a port of the other node");
      if (!line.eat(']')) return fail(line, "expected ']'");
      far.port = *port;
    }
    (void)parse_guid_behind(line);
    entry.far_end = std::move(far);
    return true;
  }

  /// w=, s= and e=, then "# ... lid 4 4xQDR". In a comment, what is neither is no error.
  bool parse_options(NetLine& line, EnabledRates& rates) {
    bool in_comment = false;
    bool in_quotes = false;
    char before = ' ';
    std::string_view behind_quotes;
    for (; !line.is_at_end(); line.skip(1)) {
      const char c = line.next();
      if (c == '"') {
        in_quotes = !in_quotes;
        behind_quotes = line.rest().substr(1);
      } else if (!in_quotes && c == '#' && !in_comment) {
        in_comment = true;
        behind_quotes = line.rest().substr(1);
      } else if (!in_quotes && is_blank(before) && line.rest().size() > 1 &&
                 line.rest()[1] == '=') {
        const Position at = here(line);
        if (!set_option(c, line.rest().substr(2), rates) && !in_comment) {
          return fail(at, "expected w=1 to w=31, s=0 to s=7, or e=0 to e=15");
        }
      }
      before = c;
    }
    if (in_comment && !in_quotes) parse_rate(behind_quotes, rates);
    return true;
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t'; }

  /// Returns false if the value of a known option is wrong. Unknown ones mean nothing to ibsim.
  static bool set_option(char option, std::string_view rest, EnabledRates& rates) {
    const auto value = parse_c_number(rest.substr(0, rest.find_first_of(" \t#,")));
    const unsigned number =
        value ? static_cast<unsigned>(std::min<std::uint64_t>(*value, 255)) : 255;
    switch (option) {
      case 'w':
        if (number < 1 || number > kMaxEnabledWidth) return false;
        rates.width = static_cast<std::uint8_t>(number);
        return true;
      case 's':
        if (number > kMaxEnabledSpeed) return false;
        rates.speed = number == 0 ? kQdr : static_cast<std::uint8_t>(number);
        return true;
      case 'e':
        if (number > kMaxEnabledExtendedSpeed) return false;
        rates.extended_speed = static_cast<std::uint8_t>(number);
        return true;
      default:
        return true;
    }
  }

  /// "lid 4 4xQDR" at the end of a comment.
  static void parse_rate(std::string_view comment, EnabledRates& rates) {
    const auto found = comment.find("lid ");
    if (found == std::string_view::npos) return;
    NetLine line(comment.substr(found + 4));
    line.skip_blanks();
    if (!line.digits()) return;
    line.skip_blanks();
    const auto lanes = line.digits();
    if (!lanes || !line.eat('x')) return;
    const auto width = enabled_width(*lanes);
    const auto speed = std::ranges::find(kSpeedNames, line.word(), &SpeedName::name);
    if (width) rates.width = *width;
    if (speed == kSpeedNames.end()) return;
    rates.speed = speed->speed;
    rates.extended_speed = speed->extended;
  }

  const ReadInclude& read_include_;
  NetRecords records_;
  std::optional<Error> error_;

  std::size_t file_ = 0;
  std::size_t line_number_ = 0;
  std::size_t depth_ = 0;
  std::size_t includes_ = 0;
  std::size_t bytes_ = 0;

  bool ids_are_names_ = false;  ///< the file is net_writer's
  std::string module_;
  EnabledRates rates_;                   ///< of the ports of the nodes that follow
  GuidSequence switch_guids_{0x200000};  // the bases of ibsim
  GuidSequence hca_guids_{0x100000};
  std::size_t switches_ = 0;
  std::size_t hcas_ = 0;
  std::optional<std::size_t> current_;  ///< the node whose ports may follow
};

}  // namespace

ipoib::Result<NetFile> parse_net(std::string_view text, const std::string& name,
                                 const ReadInclude& read_include) {
  return NetReader(read_include).run(text, name);
}

}  // namespace softib::topology
