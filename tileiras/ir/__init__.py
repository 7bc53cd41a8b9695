"""The IR core: operations, values, blocks, regions, types, attributes and locations, in MLIR's shape.

Knows no dialect.  Import from here, not from the submodules.
"""

from tileiras.support.lazy import lazy_dir, lazy_names

from .attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VerifyError,
    element_size,
)
from .blocks import Block, Region
from .builder import Builder
from .fields import (
    AnyOf,
    Constraint,
    Field,
    TypedAttribute,
    any_attribute,
    any_type,
    attribute,
    describe,
    operand,
    optional_operand,
    optional_result,
    region,
    result,
    satisfies,
    successor,
    variadic_operand,
    variadic_region,
    variadic_result,
    variadic_successor,
)
from .location import (
    UNKNOWN_LOC,
    BytecodeLoc,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
    SourceLoc,
    SourceText,
    UnknownLoc,
)
from .operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from .registry import lookup_attribute, lookup_operation, lookup_type, register_type_directive
from .traits import (
    AllElementTypesMatch,
    AllRanksMatch,
    AllShapesMatch,
    AllTypesMatch,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    Commutative,
    ConstantLike,
    Convergent,
    Elementwise,
    HasParent,
    IsolatedFromAbove,
    Leaves,
    MayNotTerminate,
    MemoryAllocate,
    MemoryEffects,
    MemoryRead,
    MemoryWrite,
    NoMemoryEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffects,
    ReturnLike,
    SameOperandsAndResultShape,
    SameOperandsAndResultType,
    SameTypeOperands,
    SingleBlock,
    SingleBlockImplicitTerminator,
    Symbol,
    SymbolTable,
    Terminator,
    Trait,
)
from .types import (
    DYNAMIC,
    FLOAT_SEMANTICS,
    FloatSemantics,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    ShapedType,
    TensorType,
    Type,
    VectorType,
    bf16,
    element_type_of,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    fnv8E5M3FNU,
    i1,
    i4,
    i8,
    i16,
    i32,
    i64,
    index,
    none,
    tf32,
)
from .values import BlockArgument, OpResult, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conversion import ConversionRewriter, ConversionTarget, TypeConverter, apply_conversion
    from .dominance import DominanceInfo
    from .effects import has_no_effect, is_trivially_dead, remove_dead_operations
    from .pass_manager import Pass, PassManager
    from .rewrite import PatternRewriter, RewritePattern, apply_patterns_greedily
    from .text.operand_parser import UnresolvedOperand
    from .text.parser import Argument, ParseError, Parser, parse_attribute, parse_module, parse_operations, parse_type
    from .text.printer import Printer, attribute_text, print_op
    from .verifier import verify

# Text is read and written on demand: a build from bytecode to PTX in one process never loads the parser.
_LAZY = {
    "ParseError": "text.parser",
    "Parser": "text.parser",
    "parse_module": "text.parser",
    "parse_attribute": "text.parser",
    "parse_type": "text.parser",
    "Printer": "text.printer",
    "print_op": "text.printer",
    "attribute_text": "text.printer",
    "Argument": "text.parser",
    "parse_operations": "text.parser",
    "verify": "verifier",
    "PatternRewriter": "rewrite",
    "RewritePattern": "rewrite",
    "apply_patterns_greedily": "rewrite",
    "has_no_effect": "effects",
    "is_trivially_dead": "effects",
    "remove_dead_operations": "effects",
    "ConversionTarget": "conversion",
    "ConversionRewriter": "conversion",
    "TypeConverter": "conversion",
    "apply_conversion": "conversion",
    "Pass": "pass_manager",
    "PassManager": "pass_manager",
    "DominanceInfo": "dominance",
    "UnresolvedOperand": "text.operand_parser",
}

__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)
