"""g2p in ONNX Runtime: graphs of GRU nodes made here; one thread, all graph optimisations.

Variants: the decoder's loop as a node of the graph (`loop`), or in Python with a session for one step (`steps`;
`binding`: the same with I/O binding); its cell as a GRU node, or of single products (`... matmul`), which can have
8-bit weights (`... int8`). In `all matmul` and `all int8` the encoder is made of these, too.
"""
import logging
import sys
import tempfile

import g2p_common as common
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

OPSET = 17


# ---- graphs ----

def gates(matrix, order=(1, 0, 2)):
    """PyTorch's gates are r z n, those of ONNX z r n."""
    return np.concatenate([np.split(matrix, 3)[i] for i in order])


def constants(weights, which):
    w, r = (gates(weights[f"{which}_w_{part}"])[None] for part in ("ih", "hh"))
    b = np.concatenate([gates(weights[f"{which}_b_{part}"]) for part in ("ih", "hh")])[None]
    named = {f"{which}_emb": weights[which + "_emb"], f"{which}_w": w, f"{which}_r": r, f"{which}_b": b}
    return [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in named.items()]


def array(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def encoder(weights):
    """Nodes and constants from "ids" [letters, words] and "lengths" to "state" [1, words, units]."""
    units = weights["enc_w_hh"].shape[1]
    nodes = [helper.make_node("Gather", ["enc_emb", "ids"], ["enc_x"]),
             helper.make_node("GRU", ["enc_x", "enc_w", "enc_r", "enc_b", "lengths"], ["", "state"], hidden_size=units,
                              linear_before_reset=1)]
    return nodes, constants(weights, "enc")


def matmul_encoder(weights):
    """The same as a Scan: the letters' part in one product beforehand, the state's part in each step."""
    make = helper.make_node
    units = weights["enc_w_hh"].shape[1]
    inner = [make("MatMul", ["e_h", "e_w_hh"], ["e_gh0"]), make("Add", ["e_gh0", "e_b_hh"], ["e_gh"]),
             *cell_nodes("e_", "e_h", "e_h_new"), make("Where", ["e_in", "e_h_new", "e_h"], ["e_h_next"])]
    body = helper.make_graph(inner, "letter", [value("e_h", TensorProto.FLOAT, ["words", units]),
                                               value("e_gi", TensorProto.FLOAT, ["words", 3 * units]),
                                               value("e_in", TensorProto.BOOL, ["words", 1])],
                             [value("e_h_next", TensorProto.FLOAT, ["words", units])], cell_sizes(units, "e_"))
    nodes = [make("Gather", ["e_emb", "ids"], ["e_x"]), make("MatMul", ["e_x", "e_w_ih"], ["e_g0"]),
             make("Add", ["e_g0", "e_b_ih"], ["e_g"]), make("Shape", ["ids"], ["e_shape"]),
             make("Gather", ["e_shape", "e_0"], ["e_count"]), make("Range", ["e_0", "e_count", "e_1"], ["e_at"]),
             make("Unsqueeze", ["e_at", "e_12"], ["e_at3"]), make("Cast", ["lengths"], ["e_len"], to=TensorProto.INT64),
             make("Unsqueeze", ["e_len", "e_last"], ["e_len2"]), make("Less", ["e_at3", "e_len2"], ["e_mask"]),
             make("Shape", ["e_len"], ["e_words"]), make("Concat", ["e_words", "e_units"], ["e_size"], axis=0),
             make("ConstantOfShape", ["e_size"], ["e_zero"], value=array("v", [0], np.float32)),
             make("Scan", ["e_zero", "e_g", "e_mask"], ["e_state"], body=body, num_scan_inputs=2),
             make("Unsqueeze", ["e_state", "e_first"], ["state"])]
    values = cell_values(weights, "enc", "e_") + [
        array("e_0", 0), array("e_1", 1), array("e_12", [1, 2]), array("e_last", [1]), array("e_first", [0]),
        array("e_units", [units])]
    return nodes, values


def gru_step(weights):
    """Nodes and constants from "last" [words] and "h" [1, words, units] to "best" [words] and "h_next"."""
    units = weights["dec_w_hh"].shape[1]
    nodes = [helper.make_node("Gather", ["dec_emb", "last"], ["x"]),
             helper.make_node("Unsqueeze", ["x", "zero"], ["x3"]),
             helper.make_node("GRU", ["x3", "dec_w", "dec_r", "dec_b", "", "h"], ["", "h_next"], hidden_size=units,
                              linear_before_reset=1),
             helper.make_node("Squeeze", ["h_next", "zero"], ["h2"]),
             helper.make_node("Gemm", ["h2", "fc_w", "fc_b"], ["logits"], transB=1),
             helper.make_node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0)]
    more = [numpy_helper.from_array(weights["fc_w"], "fc_w"), numpy_helper.from_array(weights["fc_b"], "fc_b"),
            array("zero", [0])]
    return nodes, constants(weights, "dec") + more


def cell_nodes(p, h, out):
    """From the gates of input and state, gi and gh, to the next state; p stands before all names."""
    make = helper.make_node
    return [make("Split", [p + "gi", p + "parts"], [p + "i_rz", p + "i_n"], axis=1),
            make("Split", [p + "gh", p + "parts"], [p + "h_rz", p + "h_n"], axis=1),
            make("Add", [p + "i_rz", p + "h_rz"], [p + "rz0"]), make("Sigmoid", [p + "rz0"], [p + "rz"]),
            make("Split", [p + "rz", p + "halves"], [p + "r", p + "z"], axis=1),
            make("Mul", [p + "r", p + "h_n"], [p + "rn"]), make("Add", [p + "i_n", p + "rn"], [p + "n0"]),
            make("Tanh", [p + "n0"], [p + "n"]), make("Sub", [h, p + "n"], [p + "d"]),
            make("Mul", [p + "z", p + "d"], [p + "zd"]), make("Add", [p + "n", p + "zd"], [out])]


def cell_values(weights, which, p):
    named = {"emb": weights[which + "_emb"], "w_ih": weights[which + "_w_ih"].T, "w_hh": weights[which + "_w_hh"].T,
             "b_ih": weights[which + "_b_ih"], "b_hh": weights[which + "_b_hh"]}
    return [numpy_helper.from_array(np.ascontiguousarray(v), p + k) for k, v in named.items()]


def cell_sizes(units, p):
    return [array(p + "parts", [2 * units, units]), array(p + "halves", [units, units])]


def matmul_step(weights):
    """The same of single nodes, whose products are MatMuls: what can be quantised."""
    make = helper.make_node
    nodes = [make("Gather", ["d_emb", "last"], ["x"]), make("Squeeze", ["h", "zero"], ["h2"]),
             make("MatMul", ["x", "d_w_ih"], ["gi0"]), make("Add", ["gi0", "d_b_ih"], ["d_gi"]),
             make("MatMul", ["h2", "d_w_hh"], ["gh0"]), make("Add", ["gh0", "d_b_hh"], ["d_gh"]),
             *cell_nodes("d_", "h2", "h_new"),
             make("Unsqueeze", ["h_new", "zero"], ["h_next"]), make("MatMul", ["h_new", "fc_w"], ["l0"]),
             make("Add", ["l0", "fc_b"], ["logits"]), make("ArgMax", ["logits"], ["best"], axis=1, keepdims=0)]
    more = [numpy_helper.from_array(np.ascontiguousarray(weights["fc_w"].T), "fc_w"),
            numpy_helper.from_array(weights["fc_b"], "fc_b"), array("zero", [0])]
    return nodes, cell_values(weights, "dec", "d_") + cell_sizes(weights["dec_w_hh"].shape[1], "d_") + more


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def name_nodes(nodes):
    """The quantiser makes its own names from those of nodes."""
    for node in nodes:
        node.name = next(name for name in node.output if name)
        for attribute in node.attribute:
            name_nodes(attribute.g.node)


def model_of(nodes, name, inputs, outputs, values):
    name_nodes(nodes)
    model = helper.make_model(helper.make_graph(nodes, name, inputs, outputs, values),
                              opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def loop_model(weights, step, read=encoder):
    """Encoder and a Loop of at most 20 steps, which ends when every word has ended."""
    units = weights["enc_w_hh"].shape[1]
    nodes, values = read(weights)
    inner, inner_values = step(weights)
    make = helper.make_node
    inner += [make("Equal", ["best", "end"], ["is_end"]), make("Or", ["ended", "is_end"], ["ended_next"]),
              make("Not", ["ended_next"], ["going"]), make("Cast", ["going"], ["going32"], to=TensorProto.INT32),
              make("ReduceMax", ["going32"], ["any32"], keepdims=0),
              make("Cast", ["any32"], ["more"], to=TensorProto.BOOL), make("Identity", ["best"], ["found"])]
    state = lambda suffix, last: [value(last, TensorProto.INT64, ["words"]),
                                  value("h" + suffix, TensorProto.FLOAT, [1, "words", units]),
                                  value("ended" + suffix, TensorProto.BOOL, ["words"])]
    body = helper.make_graph(inner, "step", [value("at", TensorProto.INT64, []), value("so_far", TensorProto.BOOL, []),
                                             *state("", "last")],
                             [value("more", TensorProto.BOOL, []), *state("_next", "best"),
                              value("found", TensorProto.INT64, ["words"])])
    # Constants stand outside, where ONNX Runtime packs them once.
    values += inner_values + [array("end", common.END), array("most", common.MOST_STEPS), array("yes", True, bool)]
    nodes += [make("Shape", ["lengths"], ["size"]),
              make("ConstantOfShape", ["size"], ["first"], value=array("v", [common.START])),
              make("ConstantOfShape", ["size"], ["none"], value=array("v", [False], bool)),
              make("Loop", ["most", "yes", "first", "state", "none"], ["last_end", "h_end", "e_end", "phonemes"],
                   body=body)]
    return model_of(nodes, "g2p", [value("ids", TensorProto.INT64, ["letters", "words"]),
                                   value("lengths", TensorProto.INT32, ["words"])],
                    [value("phonemes", TensorProto.INT64, ["steps", "words"])], values)


def encoder_model(weights):
    nodes, values = encoder(weights)
    return model_of(nodes, "encoder", [value("ids", TensorProto.INT64, ["letters", "words"]),
                                       value("lengths", TensorProto.INT32, ["words"])],
                    [value("state", TensorProto.FLOAT, [1, "words", None])], values)


def step_model(weights, step):
    nodes, values = step(weights)
    return model_of(nodes, "step", [value("last", TensorProto.INT64, ["words"]),
                                    value("h", TensorProto.FLOAT, [1, "words", weights["dec_w_hh"].shape[1]])],
                    [value("best", TensorProto.INT64, ["words"]),
                     value("h_next", TensorProto.FLOAT, [1, "words", None])], values)


def int8_of(model):
    logging.disable(logging.WARNING)  # it advises a step that changes nothing here
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/model.onnx"
        onnx.save(model, path)
        quantize_dynamic(path, folder + "/int8.onnx", weight_type=QuantType.QInt8, per_channel=True,
                         op_types_to_quantize=["MatMul"], extra_options={"EnableSubgraph": True})
        return onnx.load(folder + "/int8.onnx")


# ---- sessions ----

def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def inputs_of(words):
    ids, lengths = common.padded(words)
    return {"ids": np.ascontiguousarray(ids.T), "lengths": lengths.astype(np.int32)}


def loop(step, change=lambda model: model, read=encoder):
    def make(weights, batch):
        run = session(change(loop_model(weights, step, read))).run

        def predict(words):
            return [common.until_end(row) for row in run(["phonemes"], inputs_of(words))[0].T.tolist()]
        return predict
    return make


def decode(words, step):
    """step(last) gives the next phonemes."""
    last, ended, found = np.full(len(words), common.START), np.zeros(len(words), bool), []
    for _ in range(common.MOST_STEPS):
        last = step(last)
        found.append(last)
        ended |= last == common.END
        if ended.all():
            break
    return [common.until_end(row) for row in np.stack(found, 1).tolist()]


def steps(step, change=lambda model: model):
    def make(weights, batch):
        first, again = session(encoder_model(weights)).run, session(change(step_model(weights, step))).run

        def predict(words):
            h = first(["state"], inputs_of(words))[0]

            def next_of(last):
                nonlocal h
                best, h = again(["best", "h_next"], {"last": last, "h": h})
                return best
            return decode(words, next_of)
        return predict
    return make


def binding(step):
    """As ONNX Runtime's guide has it: the state stays in its memory and is never copied to NumPy."""
    def make(weights, batch):
        first, again = session(encoder_model(weights)), session(step_model(weights, step))
        bound = again.io_binding()

        def predict(words):
            h = first.run_with_ort_values(["state"], {k: onnxruntime.OrtValue.ortvalue_from_numpy(v)
                                                      for k, v in inputs_of(words).items()})[0]

            def next_of(last):
                nonlocal h
                bound.clear_binding_outputs()
                bound.bind_cpu_input("last", last)
                bound.bind_ortvalue_input("h", h)
                bound.bind_output("best")
                bound.bind_output("h_next")
                again.run_with_iobinding(bound)
                best, h = bound.get_outputs()
                return best.numpy()
            return decode(words, next_of)
        return predict
    return make


VARIANTS = {"loop": loop(gru_step), "loop matmul": loop(matmul_step), "loop int8": loop(matmul_step, int8_of),
            "all matmul": loop(matmul_step, read=matmul_encoder),
            "all int8": loop(matmul_step, int8_of, matmul_encoder),
            "steps": steps(gru_step), "steps matmul": steps(matmul_step), "steps int8": steps(matmul_step, int8_of),
            "binding": binding(gru_step), "binding matmul": binding(matmul_step)}

if __name__ == "__main__":
    sys.exit(common.main(__doc__, f"ONNX Runtime {onnxruntime.__version__}", VARIANTS))
