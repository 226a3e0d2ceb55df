// SPDX-License-Identifier: Apache-2.0
// The messages of an ONNX model that lead to tensors. Fields that a tensor's name
// depends on may come behind it: nodes, attributes and functions are gone through
// twice.
#include "formats/onnx.h"

#include <weig/format.h>

#include "core/try.h"
#include "formats/onnx_location.h"
#include "formats/onnx_metadata.h"
#include "formats/onnx_tensor.h"

namespace weig {
namespace {

constexpr std::uint32_t kMaxDepth = 32;  // of graphs in graphs

// A node, as far as its attributes need it.
struct Node {
  bool is_constant = false;
  std::optional<ProtobufField> output;  // the first with a name
  bool has_attributes = false;
  std::uint64_t number = 0;         // in its graph
  std::optional<std::string> name;  // once it is asked for
};

// One of its attributes, as far as it comes to tensors.
struct Attribute {
  std::string name;
  std::optional<ProtobufField> tensor;  // t
  std::optional<ProtobufField> graph;   // g
  NumberFields number, integer, numbers, integers;
  std::uint64_t tensors = 0;  // of all fields that hold some
  std::uint64_t graphs = 0;
  bool has_strings = false;
  bool is_reference = false;  // to what a function is called with
};

// The graph that a tensor is in: the model's own, that of a function, or one that is
// the attribute of a node. What its tensors' names begin with is put together for the
// first of them: graphs without any cost nothing.
struct Scope {
  Scope* parent = nullptr;
  Node* node = nullptr;
  const Attribute* attribute = nullptr;
  std::optional<std::uint64_t> number;  // of many in one attribute
  std::uint32_t depth = 0;
  std::optional<std::string> prefix;
};

class OnnxReader {
 public:
  explicit OnnxReader(const Input& input)
      : cursor_(input, 0, input.size), tensors_(input, manifest_) {
    manifest_.file_size = input.size;
    manifest_.covers_file = false;
    manifest_.clears_spare_bits = true;
    model_.prefix = "";
  }

  Result<Manifest> read() {
    ProtobufMessage fields(cursor_, 0, manifest_.file_size);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) break;
      WEIG_TRY(read_model_field(fields.field()));
    }
    if (!has_graph_)
      return Error(Code::corrupt, "the model has no graph")
          .hint("the file was cut, or is not an ONNX model");
    WEIG_TRY(check_distinct_names(manifest_));
    finish();
    return std::move(manifest_);
  }

 private:
  Status read_model_field(const ProtobufField& field) {
    switch (field.number) {
      case 1:
        return keep_number("ir_version", field);
      case 2:
        return keep_text("producer_name", field);
      case 3:
        return keep_text("producer_version", field);
      case 4:
        return keep_text("domain", field);
      case 5:
        return keep_number("model_version", field);
      case 7:
        WEIG_TRY(expect_wire_type(field, WireType::bytes, "the model's graph"));
        if (has_graph_)
          return Error(Code::corrupt, "the model has a graph twice").at(field.at);
        has_graph_ = true;
        return read_graph(field, model_);
      case 8:
        return keep_opset(field);
      case 14: {
        WEIG_TRY(expect_wire_type(field, WireType::bytes, "the model's metadata"));
        WEIG_TRY_ASSIGN(entry, read_onnx_pair(cursor_, field, OnnxMetadata::kMaxBytes,
                                              "the model's metadata"));
        return metadata_.add("metadata." + entry.first, entry.second, field.at);
      }
      case 20:
        ++trainings_;
        return {};
      case 25:
        return read_function(field);
      default:
        return {};
    }
  }

  Status keep_number(const char* key, const ProtobufField& field) {
    WEIG_TRY(expect_wire_type(field, WireType::varint, key));
    const auto number = static_cast<std::int64_t>(field.value);
    return metadata_.add(key, std::to_string(number), field.at);
  }

  Status keep_text(const char* key, const ProtobufField& field) {
    WEIG_TRY_ASSIGN(text, protobuf_text(cursor_, field, OnnxMetadata::kMaxBytes, key));
    return metadata_.add(key, text, field.at);
  }

  // An operator set, by its domain: "" is that of ONNX itself.
  Status keep_opset(const ProtobufField& field) {
    WEIG_TRY(expect_wire_type(field, WireType::bytes, "the model's opset_import"));
    std::string domain;
    std::uint64_t version = 0;
    ProtobufMessage fields(cursor_, field);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) break;
      if (fields.field().number == 1) {
        WEIG_TRY_ASSIGN(text, protobuf_text(cursor_, fields.field(),
                                            disk::kMaxNameBytes, "an opset's domain"));
        domain = std::move(text);
      } else if (fields.field().number == 2) {
        WEIG_TRY(
            expect_wire_type(fields.field(), WireType::varint, "an opset's version"));
        version = fields.field().value;
      }
    }
    if (domain.empty()) domain = "ai.onnx";
    return metadata_.add("opset." + domain,
                         std::to_string(static_cast<std::int64_t>(version)), field.at);
  }

  // --- Graphs ----------------------------------------------------------------------

  Status read_graph(const ProtobufField& message, Scope& scope) {
    if (scope.depth == kMaxDepth)
      return Error(Code::limit, "graphs are nested too deep")
          .at(message.at)
          .expected("at most " + std::to_string(kMaxDepth));
    std::uint64_t node_number = 0;
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) return {};
      const ProtobufField& field = fields.field();
      switch (field.number) {
        case 1:
          WEIG_TRY(read_node(field, node_number++, scope));
          break;
        case 5:
          WEIG_TRY(expect_wire_type(field, WireType::bytes, "a graph's initializer"));
          WEIG_TRY(read_initializer(field, scope));
          break;
        case 15:
          WEIG_TRY(
              expect_wire_type(field, WireType::bytes, "a graph's sparse_initializer"));
          return refuse_sparse(field, scope, {});
        default:
          break;
      }
    }
  }

  Status read_initializer(const ProtobufField& field, Scope& scope) {
    auto tensor = OnnxTensor::read(cursor_, field);
    if (!tensor) return std::move(tensor).error();
    WEIG_TRY_ASSIGN(name, name_in(scope, tensor->name));
    return tensors_.add(name, *tensor);
  }

  // Its name is that of its values, where no node gives it one.
  Status refuse_sparse(const ProtobufField& message, Scope& scope,
                       std::optional<std::string> name) {
    ProtobufMessage fields(cursor_, message);
    while (!name) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) break;
      if (fields.field().number != 1) continue;
      WEIG_TRY(expect_wire_type(fields.field(), WireType::bytes,
                                "a sparse tensor's values"));
      WEIG_TRY_ASSIGN(values, OnnxTensor::read(cursor_, fields.field()));
      name = values.name;
    }
    WEIG_TRY_ASSIGN(full, name_in(scope, name.value_or("")));
    return Error(Code::unsupported, "sparse tensors are not read")
        .tensor(full)
        .at(message.at);
  }

  // --- Nodes -----------------------------------------------------------------------

  Status read_node(const ProtobufField& message, std::uint64_t number, Scope& scope) {
    WEIG_TRY(expect_wire_type(message, WireType::bytes, "a graph's node"));
    ++nodes_;
    Node node;
    node.number = number;
    WEIG_TRY(read_node_fields(message, node));
    if (!node.has_attributes) return {};
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) return {};
      if (fields.field().number != 5) continue;
      WEIG_TRY(read_attribute(fields.field(), node, scope));
    }
  }

  Status read_node_fields(const ProtobufField& message, Node& node) {
    bool is_named_constant = false;
    bool is_of_onnx = true;
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) break;
      const ProtobufField& field = fields.field();
      if (field.number == 2) {
        WEIG_TRY(expect_wire_type(field, WireType::bytes, "a node's output"));
        if (!node.output && field.size() > 0) node.output = field;
      } else if (field.number == 4) {
        WEIG_TRY_ASSIGN(is_it, is_text(field, "Constant", "a node's op_type"));
        is_named_constant = is_it;
      } else if (field.number == 5) {
        WEIG_TRY(expect_wire_type(field, WireType::bytes, "a node's attribute"));
        node.has_attributes = true;
      } else if (field.number == 7) {
        WEIG_TRY_ASSIGN(is_it, is_text(field, "ai.onnx", "a node's domain"));
        is_of_onnx = is_it || field.size() == 0;
      }
    }
    node.is_constant = is_named_constant && is_of_onnx;
    return {};
  }

  Result<bool> is_text(const ProtobufField& field, std::string_view text,
                       const char* what) {
    WEIG_TRY(expect_wire_type(field, WireType::bytes, what));
    if (field.size() != text.size()) return false;
    cursor_.seek(field.begin);
    WEIG_TRY_ASSIGN(bytes, cursor_.take(field.size()));
    return text_of(bytes) == text;
  }

  // What a node is called among those of its graph: no two have the same output.
  Result<std::string_view> name_of(Node& node) {
    if (!node.name && !node.output) node.name = "#" + std::to_string(node.number);
    if (!node.name) {
      WEIG_TRY_ASSIGN(text, protobuf_text(cursor_, *node.output, disk::kMaxNameBytes,
                                          "the name of a node's output"));
      node.name = std::move(text);
    }
    return std::string_view(*node.name);
  }

  // The name of a tensor in a graph.
  Result<std::string> name_in(Scope& scope, std::string_view name) {
    WEIG_TRY_ASSIGN(prefix, prefix_of(scope));
    return std::string(prefix) + std::string(name);
  }

  // Recursion as deep as graphs are.
  Result<std::string_view> prefix_of(Scope& scope) {
    if (!scope.prefix) {
      WEIG_TRY_ASSIGN(outer, prefix_of(*scope.parent));
      WEIG_TRY_ASSIGN(node, name_of(*scope.node));
      std::string prefix(outer);
      prefix += node;
      prefix += '/';
      prefix += scope.attribute->name;
      if (scope.number) prefix += "#" + std::to_string(*scope.number);
      prefix += '/';
      if (prefix.size() > disk::kMaxNameBytes)
        return Error(Code::limit, "the names of graphs in graphs are too long")
            .expected("at most " + std::to_string(disk::kMaxNameBytes) + " bytes");
      scope.prefix = std::move(prefix);
    }
    return std::string_view(*scope.prefix);
  }

  // --- Attributes ------------------------------------------------------------------

  Status read_attribute(const ProtobufField& message, Node& node, Scope& scope) {
    Attribute attribute;
    WEIG_TRY(read_attribute_fields(message, attribute));
    if (node.is_constant && !attribute.is_reference)
      return read_constant(message, attribute, node, scope);
    tensors_in_attributes_ += attribute.tensors;
    return attribute.graphs > 0 ? read_graphs(message, attribute, node, scope)
                                : Status();
  }

  static Status keep_one(std::optional<ProtobufField>& kept, const ProtobufField& field,
                         const char* what) {
    WEIG_TRY(expect_wire_type(field, WireType::bytes, what));
    if (kept)
      return Error(Code::corrupt, std::string(what) + " is there twice").at(field.at);
    kept = field;
    return {};
  }

  Status read_attribute_fields(const ProtobufField& message, Attribute& attribute) {
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) return {};
      const ProtobufField& field = fields.field();
      switch (field.number) {
        case 1: {
          WEIG_TRY_ASSIGN(text, protobuf_text(cursor_, field, disk::kMaxNameBytes,
                                              "an attribute's name"));
          attribute.name = std::move(text);
          break;
        }
        case 2:
          attribute.number.add(field);
          break;
        case 3:
          attribute.integer.add(field);
          break;
        case 4:
        case 9:
          attribute.has_strings = true;
          break;
        case 5:
          WEIG_TRY(keep_one(attribute.tensor, field, "an attribute's tensor"));
          ++attribute.tensors;
          break;
        case 6:
          WEIG_TRY(keep_one(attribute.graph, field, "an attribute's graph"));
          ++attribute.graphs;
          break;
        case 7:
          attribute.numbers.add(field);
          break;
        case 8:
          attribute.integers.add(field);
          break;
        case 10:
        case 22:
        case 23:
          ++attribute.tensors;
          break;
        case 11:
          WEIG_TRY(expect_wire_type(field, WireType::bytes, "an attribute's graph"));
          ++attribute.graphs;
          break;
        case 21:
          attribute.is_reference = true;
          break;
        default:
          break;
      }
    }
  }

  // A tensor that a Constant node makes has the name of the node's output.
  Status read_constant(const ProtobufField& message, const Attribute& attribute,
                       Node& node, Scope& scope) {
    if (!attribute.name.starts_with("value") && attribute.name != "sparse_value") {
      tensors_in_attributes_ += attribute.tensors;
      return {};
    }
    WEIG_TRY_ASSIGN(own, name_of(node));
    WEIG_TRY_ASSIGN(name, name_in(scope, own));
    if (attribute.name == "sparse_value")
      return refuse_sparse(message, scope, std::string(own));
    if (attribute.name == "value_float")
      return tensors_.add_number(name, Dtype::f32, attribute.number,
                                 {2, WireType::fixed32, 32});
    if (attribute.name == "value_int")
      return tensors_.add_number(name, Dtype::i64, attribute.integer,
                                 {3, WireType::varint, 64});
    if (attribute.name == "value_floats")
      return tensors_.add_numbers(name, Dtype::f32, attribute.numbers,
                                  {7, WireType::fixed32, 32});
    if (attribute.name == "value_ints")
      return tensors_.add_numbers(name, Dtype::i64, attribute.integers,
                                  {8, WireType::varint, 64});
    if (attribute.has_strings) return tensors_.skip_strings(name);
    if (!attribute.tensor)
      return Error(Code::corrupt, "its Constant node has no value")
          .tensor(name)
          .at(message.at);
    auto tensor = OnnxTensor::read(cursor_, *attribute.tensor);
    if (!tensor) return std::move(tensor).error().tensor(name);
    return tensors_.add(name, *tensor);
  }

  Status read_graphs(const ProtobufField& message, const Attribute& attribute,
                     Node& node, Scope& scope) {
    Scope inner{.parent = &scope,
                .node = &node,
                .attribute = &attribute,
                .number = {},
                .depth = scope.depth + 1,
                .prefix = {}};
    if (attribute.graph) WEIG_TRY(read_graph(*attribute.graph, inner));
    if (attribute.graphs == (attribute.graph ? 1 : 0)) return {};
    std::uint64_t number = 0;
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) return {};
      if (fields.field().number != 11) continue;
      inner.number = number++;
      inner.prefix.reset();
      WEIG_TRY(read_graph(fields.field(), inner));
    }
  }

  // --- Functions -------------------------------------------------------------------

  Status read_function(const ProtobufField& message) {
    WEIG_TRY(expect_wire_type(message, WireType::bytes, "the model's function"));
    std::string parts[3];  // domain, name, overload
    const auto part_of = [](std::uint32_t number) {
      return number == 10 ? 0 : number == 1 ? 1 : number == 13 ? 2 : 3;
    };
    ProtobufMessage fields(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, fields.next());
      if (!more) break;
      const int part = part_of(fields.field().number);
      if (part == 3) continue;
      WEIG_TRY_ASSIGN(text, protobuf_text(cursor_, fields.field(), disk::kMaxNameBytes,
                                          "a function's name"));
      parts[part] = std::move(text);
    }
    std::string prefix = parts[0] + "::" + parts[1];
    if (!parts[2].empty()) prefix += "::" + parts[2];
    Scope scope;
    scope.prefix = prefix + "/";
    std::uint64_t number = 0;
    ProtobufMessage again(cursor_, message);
    for (;;) {
      WEIG_TRY_ASSIGN(more, again.next());
      if (!more) return {};
      if (again.field().number == 7)
        WEIG_TRY(read_node(again.field(), number++, scope));
    }
  }

  // --- The end ---------------------------------------------------------------------

  void finish() {
    tensors_.finish();
    manifest_.metadata = metadata_.text();
    const auto skip = [this](std::uint64_t count, const char* one, const char* many) {
      if (count > 0)
        manifest_.skipped.push_back(std::to_string(count) + (count == 1 ? one : many));
    };
    skip(nodes_, " node of the graph", " nodes of the graph");
    skip(tensors_in_attributes_,
         " tensor in an attribute of a node that is no Constant",
         " tensors in attributes of nodes that are no Constant");
    skip(trainings_, " graph for training", " graphs for training");
    if (manifest_.entries().empty())
      manifest_.warnings.push_back(
          "the model has no tensors: neither initializers nor "
          "Constant nodes");
  }

  InputCursor cursor_;
  Manifest manifest_;
  OnnxTensors tensors_;
  OnnxMetadata metadata_;
  Scope model_;
  bool has_graph_ = false;
  std::uint64_t nodes_ = 0;
  std::uint64_t tensors_in_attributes_ = 0;
  std::uint64_t trainings_ = 0;
};

}  // namespace

Result<Manifest> read_onnx(const Input& input) { return OnnxReader(input).read(); }

}  // namespace weig
