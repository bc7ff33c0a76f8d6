import java.io.ByteArrayInputStream;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamReader;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import uk.co.flax.luwak.InputDocument;

/** Luwak, which became Lucene's monitor: XML read by StAX into fields, Lucene queries. */
public final class LuwakPeer extends Luwak {
    private static final Analyzer WHOLE = new KeywordAnalyzer();
    private static final Analyzer WORDS = new WhitespaceAnalyzer();

    private final XMLInputFactory factory = XMLInputFactory.newInstance();

    private LuwakPeer() throws Exception {
        super("value", WHOLE, 4);
    }

    @Override
    InputDocument document(byte[] event) throws Exception {
        InputDocument.Builder document = InputDocument.builder("event");
        XMLStreamReader reader = factory.createXMLStreamReader(new ByteArrayInputStream(event));
        StringBuilder text = new StringBuilder();
        String kind = "";
        while (reader.hasNext()) {
            switch (reader.next()) {
                case XMLStreamConstants.START_ELEMENT -> text.setLength(0);
                case XMLStreamConstants.CHARACTERS -> text.append(reader.getText());
                case XMLStreamConstants.END_ELEMENT -> {
                    String name = reader.getLocalName();
                    String value = text.toString();
                    switch (name) {
                        case "scheme", "what" -> kind = value;
                        case "value" -> {
                            if (kind.startsWith("m")) {
                                document.addField(kind, String.format("%04d", Integer.parseInt(value)), WHOLE);
                            } else {
                                document.addField("value", value, WHOLE);
                                document.addField(kind, value, WHOLE);
                            }
                        }
                        case "sender", "status", "event", "urgency", "severity" ->
                            document.addField(name, value, WHOLE);
                        case "text" -> document.addField(name, value, WORDS);
                        default -> { }
                    }
                    text.setLength(0);
                }
                default -> { }
            }
        }
        return document.build();
    }

    public static void main(String[] arguments) throws Exception {
        measure(new LuwakPeer(), arguments);
    }
}
